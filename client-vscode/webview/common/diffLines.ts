/** Lines of a diff for display, parsed from a unified diff or computed from two texts. */

import { structuredPatch } from 'diff';
import type { ApprovalRequest, PreviewFile } from '../../src/protocol.gen.ts';

export interface DiffLine {
  kind: 'added' | 'removed' | 'same' | 'gap';
  text: string;
  /** the number of the line in the new file, or in the old one if it is removed; absent if it is not known */
  number?: number;
}

export interface FileDiff {
  lines: readonly DiffLine[];
  added: number;
  removed: number;
}

/** Above this number of edits the whole file counts as rewritten: the comparison takes quadratic time. */
const MAX_EDITS = 2000;

const cache = new WeakMap<PreviewFile, FileDiff>();

/** The files that an approval would change: those of an edit, or those that a tried command changed. */
export function previewFiles({ preview }: ApprovalRequest): readonly PreviewFile[] {
  if (preview.kind === 'diff') return preview.files;
  return (preview.kind === 'command' && preview.effects?.files) || [];
}

export function previewDiff(file: PreviewFile): FileDiff {
  const found = cache.get(file);
  if (found) return found;
  const before = file.before ?? '';
  const after = file.after ?? '';
  const patch = structuredPatch('', '', before, after, '', '', { context: 2, maxEditLength: MAX_EDITS });
  const diff = patch ? fromHunks(patch.hunks) : rewritten(before, after);
  cache.set(file, diff);
  return diff;
}

/** Parses the text of a unified diff and drops its headers. */
export function parseUnifiedDiff(text: string): FileDiff {
  const hunks: (Hunk & { lines: string[] })[] = [];
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const header = /^@@ -(\d+)\S* \+(\d+)/.exec(line);
    if (header) hunks.push({ oldStart: Number(header[1]), newStart: Number(header[2]), lines: [] });
    else if (line.startsWith('@@')) hunks.push({ lines: [] });
    else if (/^(--- |\+\+\+ |diff |index |Index: |=====)/.test(line)) continue;
    else if (/^[ +\\-]/.test(line) || line === '') {
      if (hunks.length === 0) hunks.push({ lines: [] });
      hunks.at(-1)?.lines.push(line);
    }
  }
  return fromHunks(hunks);
}

interface Hunk {
  oldStart?: number;
  newStart?: number;
  lines: readonly string[];
}

function fromHunks(hunks: readonly Hunk[]): FileDiff {
  const lines = hunks.flatMap((hunk, index): DiffLine[] => [
    ...(index > 0 ? [{ kind: 'gap', text: '' } as const] : []),
    ...withoutEmptyEdges(numbered(hunk)),
  ]);
  return withCounts(lines);
}

function numbered({ oldStart, newStart, lines }: Hunk): readonly DiffLine[] {
  let before = oldStart ?? Number.NaN;
  let after = newStart ?? Number.NaN;
  return lines
    .filter((line) => !line.startsWith('\\'))
    .map((line): DiffLine => {
      const kind = line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : 'same';
      const number = kind === 'removed' ? before : after;
      if (kind !== 'added') before += 1;
      if (kind !== 'removed') after += 1;
      return { kind, text: line.slice(1), ...(!Number.isNaN(number) && { number }) };
    });
}

/** Drops empty context lines at the edges to save space. */
function withoutEmptyEdges(lines: readonly DiffLine[]): readonly DiffLine[] {
  const matters = ({ kind, text }: DiffLine) => kind !== 'same' || text.trim() !== '';
  return lines.slice(Math.max(lines.findIndex(matters), 0), lines.findLastIndex(matters) + 1);
}

function rewritten(before: string, after: string): FileDiff {
  const lines = (text: string, kind: DiffLine['kind']): DiffLine[] =>
    text === ''
      ? []
      : text
          .replace(/\n$/, '')
          .split('\n')
          .map((line, index) => ({ kind, text: line, number: index + 1 }));
  return withCounts([...lines(before, 'removed'), ...lines(after, 'added')]);
}

function withCounts(lines: readonly DiffLine[]): FileDiff {
  return {
    lines,
    added: lines.filter((line) => line.kind === 'added').length,
    removed: lines.filter((line) => line.kind === 'removed').length,
  };
}
