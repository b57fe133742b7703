import { expect, test } from 'vitest';
import { plainText } from '../../../src/editor/terminal.ts';

test.each([
  ['colours', '\x1b[1;31mFAILED\x1b[0m tests\r\n', 'FAILED tests'],
  ['marks of the shell integration', '\x1b]633;C\x07ok\x1b]633;D;0\x07\r\n', 'ok'],
  ['a title', '\x1b]0;make\x1b\\done', 'done'],
  ['a progress that is written over', '10 %\r50 %\r100 %\r\nready', '100 %\nready'],
  ['plain text', 'a [b] (c)', 'a [b] (c)'],
])('%s', (_, output, text) => {
  expect(plainText(output)).toBe(text);
});
