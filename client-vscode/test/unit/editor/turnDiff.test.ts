import { expect, it } from 'vitest';
import { textBefore } from '../../../src/editor/turnDiff.ts';

it('the text before a turn is reconstructed from its diffs', () => {
  const diff = '--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n';
  expect(textBefore('a\nB\nc\n', [diff])).toBe('a\nb\nc\n');
  expect(textBefore('all\nelse\n', [diff])).toBeUndefined();
});
