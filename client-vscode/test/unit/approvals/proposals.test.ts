import { describe, expect, it } from 'vitest';
import { amendedArgs, smallestEdit } from '../../../src/approvals/proposals.ts';
import type { ApprovalRequest } from '../../../src/protocol.gen.ts';
import { EDIT_APPROVAL } from '../../harness/scenes.ts';

describe('amended arguments', () => {
  const before = 'a\nb\nc\nb\nd\n';

  it('contain the smallest edit that is unique', () => {
    expect(smallestEdit(before, 'a\nb\nX\nb\nd\n')).toEqual({ old_string: 'c', new_string: 'X' });
    expect(smallestEdit(before, 'a\nX\nc\nb\nd\n')).toEqual({ old_string: 'a\nb\nc', new_string: 'a\nX\nc' });
  });

  it.each([
    ['a\nb\nc\n', 'a\nb\nc\nd\n'],
    ['x\nx\nx\n', 'x\nx\ny\nx\n'],
    ['', 'new\n'],
    ['one', 'two'],
  ])('contain an edit that turns %j into %j', (from, to) => {
    const edit = smallestEdit(from, to);
    expect(from.split(edit.old_string).length === 2 || from === edit.old_string).toBe(true);
    expect(from.replace(edit.old_string, () => edit.new_string)).toBe(to);
  });

  it('replace whole contents and rebuild edits', () => {
    const file = { uri: 'file:///a', before, after: 'after' };
    const request = (args: Record<string, unknown>): ApprovalRequest => ({
      ...EDIT_APPROVAL,
      call: { ...EDIT_APPROVAL.call, args },
      preview: { kind: 'diff', files: [file] },
    });
    expect(amendedArgs(request({ path: 'a', content: 'after' }), 0, 'mine')).toEqual({ path: 'a', content: 'mine' });
    expect(amendedArgs(request({ path: 'a', edits: [] }), 0, 'a\nb\nX\nb\nd\n')).toEqual({
      path: 'a',
      edits: [{ old_string: 'c', new_string: 'X' }],
    });
    expect(amendedArgs(request({ path: 'a' }), 0, 'mine')).toBeUndefined();
  });
});
