import { expect, test } from 'vitest';
import { hunkAt } from '../../../src/editor/inlineEdit.ts';
import type { ReviewFile } from '../../../src/protocol.gen.ts';

const at = (line: number, character = 0) => ({ line, character });

function file(...hunks: { id: string; first: number; end: number; after: string }[]): ReviewFile {
  return {
    sessionId: 's',
    uri: 'file:///a',
    change: 'edited',
    added: 1,
    removed: 1,
    hunks: hunks.map(({ id, first, end, after }) => ({
      id,
      range: { start: at(first), end: at(end) },
      before: 'x\n',
      after,
      turnId: 't',
      state: 'pending',
    })),
  };
}

const edited = file(
  { id: 'two lines', first: 2, end: 4, after: 'a\nb\n' },
  { id: 'gone', first: 9, end: 9, after: '' },
);

test.each([
  ['above a hunk', at(1), at(1), undefined],
  ['in its first line', at(2, 5), at(2, 5), 'two lines'],
  ['in its last line', at(3, 1), at(3, 1), 'two lines'],
  ['below it', at(4), at(4), undefined],
  ['a selection of the line above it', at(1), at(2), undefined],
  ['a selection that reaches into it', at(1), at(2, 1), 'two lines'],
  ['where lines were removed', at(9, 3), at(9, 3), 'gone'],
])('%s', (_, start, end, id) => {
  expect(hunkAt([edited], { start, end })?.hunk.id).toBe(id);
});
