/** Uses a code block of an answer: inserts it, shows it as a diff, or types it into a terminal. */

import * as vscode from 'vscode';
import type { Proposals } from '../approvals/proposals.ts';

/** Replaces the selection of the active editor, or opens a new document. */
export async function insertAtCursor(text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!editor) {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text }));
    return;
  }
  await editor.edit((edit) => edit.replace(editor.selection, text));
}

/** Opens a diff in which the code replaces the selection, or the whole file if nothing is selected. */
export async function showAsDiff(proposals: Proposals, text: string): Promise<void> {
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

/** Types the code into a terminal without running it. */
export function typeInTerminal(text: string): void {
  const terminal = vscode.window.activeTerminal ?? vscode.window.createTerminal();
  terminal.show(true);
  terminal.sendText(text.trimEnd(), false);
}
