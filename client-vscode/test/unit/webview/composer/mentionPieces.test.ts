import { expect, test } from 'vitest';
import type { MentionInText } from '../../../../src/protocol.gen.ts';
import { costOf, piecesOf } from '../../../../webview/composer/mentionPieces.ts';

const TEXT = 'Mend @a.py and @b.py';
const FOUND: readonly MentionInText[] = [
  { kind: 'file', name: 'a.py', start: 5, end: 10, tokens: 1200 },
  { kind: 'file', name: 'b.py', start: 15, end: 20, tokens: 3 },
];
const marked = (text: string) => piecesOf(text, TEXT, FOUND).flatMap((piece) => (piece.mention ? [piece.text] : []));

test.each([
  ['all of the text that was asked about', TEXT, ['@a.py', '@b.py']],
  ['also those before which nothing was changed', `${TEXT} now`, ['@a.py', '@b.py']],
  ['not one that may go on', `${TEXT}.`, ['@a.py']],
  ['none whose name goes on', 'Mend @a.pyc and @b.py', []],
  ['none of another text', 'Other words', []],
])('the marked mentions are %s', (_, text, expected) => {
  expect(marked(text)).toEqual(expected);
});

test('nothing of the text is lost', () => {
  const joined = piecesOf(TEXT, TEXT, FOUND)
    .map(({ text }) => text)
    .join('');
  expect(joined).toBe(`${TEXT}\u200b`);
});

test('the cost is told in words', () => {
  const [first] = FOUND;
  expect(first && costOf(first)).toBe('about 1.2k tokens');
  expect(costOf({ kind: 'url', name: 'u', start: 0, end: 1 })).toBe('its size is known when the prompt is sent');
  expect(costOf({ kind: 'file', name: 'f', start: 0, end: 1, problem: 'a secret' })).toBe('not attached: a secret');
});
