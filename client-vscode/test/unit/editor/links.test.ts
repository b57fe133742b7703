import { expect, it } from 'vitest';
import { parseFileLink } from '../../../src/editor/links.ts';

it('a link to a file may contain a line', () => {
  expect(parseFileLink('src/auth.ts:42')).toEqual({ path: 'src/auth.ts', line: 41 });
  expect(parseFileLink('src/auth.ts#L7-L9')).toEqual({ path: 'src/auth.ts', line: 6 });
  expect(parseFileLink('README.md')).toEqual({ path: 'README.md', line: undefined });
});
