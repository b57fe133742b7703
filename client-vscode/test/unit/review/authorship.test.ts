import { beforeEach, expect, it, vi } from 'vitest';
import type { BlamedLines } from '../../../src/protocol.gen.ts';
import { Authorship } from '../../../src/review/authorship.ts';
import { answering } from '../support/server.ts';
import { documentChanged, LOG, showEditor, shown, TextEditor } from '../support/vscode.ts';

const at = (line: number) => ({ line, character: 0 });
const part = (first: number, end: number, promptTitle: string): BlamedLines => ({
  range: { start: at(first), end: at(end) },
  sessionId: 's1',
  turnId: 't1',
  promptTitle,
});

/** Shows a file of four lines, whose authors are these. */
function rig() {
  const answer: { lines: BlamedLines[] } = { lines: [part(0, 1, 'Add x'), part(2, 4, 'Rename [y](z)')] };
  const asked: unknown[] = [];
  const { connection, attach } = answering((method, params) => {
    asked.push([method, params]);
    return answer;
  });
  attach();
  const editor = new TextEditor('file:///a.py', ['x = 1', 'mine', 'y = 2', 'z']);
  showEditor(editor);
  return { authorship: new Authorship(connection, LOG), editor, answer, asked };
}

const words = (editor: TextEditor) =>
  (editor.drawn as { renderOptions: { after: { contentText: string } } }[]).map((one) => [
    one.renderOptions.after.contentText,
  ]);

beforeEach(() => {
  shown.length = 0;
});

it('names the turns behind the lines, with a link to their session, and hides them again', async () => {
  const { authorship, editor, asked } = rig();
  await authorship.toggle();
  expect(asked).toEqual([['pilotfish/review/blame', { uri: 'file:///a.py' }]]);
  expect(words(editor)).toEqual([['Pilotfish: Add x'], ['Pilotfish, 2 lines: Rename [y] (z)']]);
  const [first, second] = editor.drawn as { range: unknown; hoverMessage: { value: string; isTrusted: unknown } }[];
  expect(first?.range).toEqual({ start: { line: 0, character: 5 }, end: { line: 0, character: 5 } });
  const link = `command:pilotfish.sessions.open?${encodeURIComponent('[{"id":"s1"}]')}`;
  expect(first?.hoverMessage.value).toBe(`Written by Pilotfish: Add x\n\n[Open the session](${link})`);
  expect(second?.hoverMessage.value).toContain('Rename \\[y\\]\\(z\\)');
  expect(second?.hoverMessage.isTrusted).toEqual({ enabledCommands: ['pilotfish.sessions.open'] });
  await authorship.toggle();
  expect(editor.drawn).toEqual([]);
  authorship.dispose();
});

it('asks again after an edit of a file whose authors are shown, and only then', async () => {
  vi.useFakeTimers();
  const { authorship, editor, answer, asked } = rig();
  documentChanged.fire(editor);
  await vi.runAllTimersAsync();
  expect(asked).toEqual([]);
  await authorship.toggle();
  answer.lines = [part(1, 2, 'Add x')];
  for (let n = 0; n < 3; n += 1) documentChanged.fire(editor);
  await vi.runAllTimersAsync();
  expect(asked.length).toBe(2);
  expect(words(editor)).toEqual([['Pilotfish: Add x']]);
  authorship.dispose();
  vi.useRealTimers();
});

it('says so if no turn wrote a line of the file', async () => {
  const { authorship, editor, answer } = rig();
  answer.lines = [];
  await authorship.toggle();
  expect([shown, editor.drawn]).toEqual([['No line of this file was written by Pilotfish.'], []]);
  authorship.dispose();
});
