import { expect, it } from 'vitest';
import { isCompatible } from '../../../src/server/findServer.ts';

it('versions with the same major and minor number are compatible', () => {
  expect([isCompatible('0.1.9', '0.1.0'), isCompatible('0.2.0', '0.1.0'), isCompatible('1.1.0', '0.1.0')]).toEqual([
    true,
    false,
    false,
  ]);
});
