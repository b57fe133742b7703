/** Lines of a diff for display, parsed from a unified diff or computed from two texts. */

import { structuredPatch } from 'diff';
import type { PreviewFile } from '../../src/protocol.gen.ts';

export interface DiffLine {
  kind: 'added' | 'removed' | 'same' | 'gap';
  text: string;
}

export interface FileDiff {
  lines: readonly DiffLine[];
  added: number;
  removed: number;
}

/** Above this number of edits the whole file counts as rewritten: the comparison takes quadratic time. */
const MAX_EDITS = 2000;

const cache = new WeakMap<PreviewFile, FileDiff>();

export function previewDiff(file: PreviewFile): FileDiff {
  const found = cache.get(file);
  if (found) return found;
  const before = file.before ?? '';
  const after = file.after ?? '';
  const patch = structuredPatch('', '', before, after, '', '', { context: 2, maxEditLength: MAX_EDITS });
  const diff = patch ? fromHunks(patch.hunks.map((hunk) => hunk.lines)) : rewritten(before, after);
  cache.set(file, diff);
  return diff;
}

/** Parses the text of a unified diff and drops its headers. */
export function parseUnifiedDiff(text: string): FileDiff {
  const hunks: string[][] = [];
  for (const line of text.replace(/\n$/, '').split('\n')) {
    if (line.startsWith('@@')) hunks.push([]);
    else if (/^(--- |\+\+\+ |diff |index |Index: |=====)/.test(line)) continue;
    else if (/^[ +\\-]/.test(line) || line === '') {
      if (hunks.length === 0) hunks.push([]);
      hunks.at(-1)?.push(line);
    }
  }
  return fromHunks(hunks);
}

function fromHunks(hunks: readonly (readonly string[])[]): FileDiff {
  const lines: DiffLine[] = [];
  hunks.forEach((hunk, index) => {
    if (index > 0) lines.push({ kind: 'gap', text: '' });
    for (const line of withoutEmptyEdges(hunk)) {
      if (line.startsWith('\\')) continue;
      const kind = line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : 'same';
      lines.push({ kind, text: line.slice(1) });
    }
  });
  return withCounts(lines);
}

/** Drops empty context lines at the edges to save space. */
function withoutEmptyEdges(hunk: readonly string[]): readonly string[] {
  const first = hunk.findIndex((line) => line.trim() !== '');
  const last = hunk.findLastIndex((line) => line.trim() !== '');
  return hunk.slice(Math.max(first, 0), last + 1);
}

function rewritten(before: string, after: string): FileDiff {
  const lines = (text: string, kind: DiffLine['kind']): DiffLine[] =>
    text === ''
      ? []
      : text
          .replace(/\n$/, '')
          .split('\n')
          .map((line) => ({ kind, text: line }));
  return withCounts([...lines(before, 'removed'), ...lines(after, 'added')]);
}

function withCounts(lines: readonly DiffLine[]): FileDiff {
  return {
    lines,
    added: lines.filter((line) => line.kind === 'added').length,
    removed: lines.filter((line) => line.kind === 'removed').length,
  };
}
