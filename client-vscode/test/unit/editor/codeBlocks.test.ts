import { expect, test } from 'vitest';
import { changedLines } from '../../../src/editor/codeBlocks.ts';

/** Applies the change as an editor does: the lines with their line ends are replaced. */
function applied(before: string, after: string): string {
  const lines = before.split('\n');
  const { first, end, text } = changedLines(lines, after.split('\n'));
  const head = lines.slice(0, first).map((line) => `${line}\n`);
  return [...head, text, lines.slice(Math.min(end, lines.length)).join('\n')].join('');
}

test.each([
  ['a\nb\nc\n', 'a\nB\nc\n'],
  ['a\nb\nc', 'a\nb\nC'],
  ['a\nb\n', 'a\nb\nc\n'],
  ['a\nb', 'a\nb\nc'],
  ['a\nb\nc\n', 'b\nc\n'],
  ['a\na\na\n', 'a\na\n'],
  ['', 'a\n'],
  ['a\n', ''],
  ['x\ny\nz\n', 'x\nnew\ny\nz\n'],
])('%j becomes %j', (before, after) => {
  expect(applied(before, after)).toBe(after);
});

test('only the lines that differ are replaced', () => {
  expect(changedLines(['a', 'b', 'c', ''], ['a', 'B', 'c', ''])).toEqual({ first: 1, end: 2, text: 'B\n' });
});
