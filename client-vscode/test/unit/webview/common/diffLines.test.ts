import { describe, expect, it } from 'vitest';
import { parseUnifiedDiff, previewDiff } from '../../../../webview/common/diffLines.ts';

describe('diffs', () => {
  it('are computed from two texts', () => {
    const diff = previewDiff({ uri: 'file:///a', before: 'a\nb\nc\n', after: 'a\nx\nc\n' });
    expect(diff).toMatchObject({ added: 1, removed: 1 });
    expect(diff.lines).toEqual([
      { kind: 'same', text: 'a', number: 1 },
      { kind: 'removed', text: 'b', number: 2 },
      { kind: 'added', text: 'x', number: 2 },
      { kind: 'same', text: 'c', number: 3 },
    ]);
  });

  it('of a new file contain only added lines', () => {
    expect(previewDiff({ uri: 'file:///a', before: null, after: 'a\nb\n' })).toMatchObject({ added: 2, removed: 0 });
  });

  it('are parsed from unified diffs', () => {
    const diff = parseUnifiedDiff('--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -9 +9 @@\n-d\n+e\n');
    expect(diff.lines.map(({ kind, number }) => [kind, number])).toEqual([
      ['removed', 1],
      ['added', 1],
      ['same', 2],
      ['gap', undefined],
      ['removed', 9],
      ['added', 9],
    ]);
  });
});
