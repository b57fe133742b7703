import { describe, expect, it } from 'vitest';
import { parseUnifiedDiff, previewDiff } from '../../../../webview/common/diffLines.ts';

describe('diffs', () => {
  it('are computed from two texts', () => {
    const diff = previewDiff({ uri: 'file:///a', before: 'a\nb\nc\n', after: 'a\nx\nc\n' });
    expect(diff).toMatchObject({ added: 1, removed: 1 });
    expect(diff.lines.map((line) => line.kind)).toEqual(['same', 'removed', 'added', 'same']);
  });

  it('of a new file contain only added lines', () => {
    expect(previewDiff({ uri: 'file:///a', before: null, after: 'a\nb\n' })).toMatchObject({ added: 2, removed: 0 });
  });

  it('are parsed from unified diffs', () => {
    const diff = parseUnifiedDiff('--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -9 +9 @@\n-d\n+e\n');
    expect(diff.lines.map((line) => line.kind)).toEqual(['removed', 'added', 'same', 'gap', 'removed', 'added']);
  });
});
