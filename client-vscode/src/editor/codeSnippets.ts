/** Code of an answer, taken into the editor or the terminal. */

import * as vscode from 'vscode';
import type { Proposals } from '../approvals/proposals.ts';

export async function insert(text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!editor) {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text }));
    return;
  }
  await editor.edit((edit) => edit.replace(editor.selection, text));
}

/** Code from the answer against the selection, or the whole of the file in view. */
export async function suggest(proposals: Proposals, text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!editor) {
    await proposals.showText(text, 'plaintext');
    return;
  }
  const { document, selection } = editor;
  const whole = document.getText();
  const after = selection.isEmpty
    ? text
    : whole.slice(0, document.offsetAt(selection.start)) + text + whole.slice(document.offsetAt(selection.end));
  await proposals.showDiff(
    whole,
    after,
    document.uri,
    vscode.l10n.t('{0}: suggestion', vscode.workspace.asRelativePath(document.uri)),
  );
}

/** Typed into a terminal, not executed: the user presses Enter. */
export function toTerminal(text: string): void {
  const terminal = vscode.window.activeTerminal ?? vscode.window.createTerminal();
  terminal.show(true);
  terminal.sendText(text.trimEnd(), false);
}
