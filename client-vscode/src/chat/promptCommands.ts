/**
 * Commands that start a prompt outside the chat: from the editor, a code action or the command palette.
 *
 * A prompt about code starts a session of its own: the open chat is about something else, and its history costs tokens.
 */

import * as vscode from 'vscode';
import type { ChatDraft } from '../protocol.gen.ts';
import type { Services } from '../services.ts';
import { showInfo } from '../widgets.ts';
import { documentChip, problemChips, selectionChip, toComposer } from './attachments.ts';
import { lastPrompt } from './turnHistory.ts';

export async function openChat({ chat, view }: Services, draft: ChatDraft | undefined): Promise<void> {
  if (!draft?.prompt) {
    await view.revealAndPost({ type: 'focus' });
    return;
  }
  if (draft.newSession) await chat.open(null);
  await view.revealAndPost({ type: 'compose', ...toComposer(draft.prompt), send: draft.send ?? false });
}

export async function retry({ chat, connection, view }: Services): Promise<void> {
  if (!chat.session) return;
  const last = await lastPrompt(connection, chat.session.id);
  if (!last) return;
  await view.revealAndPost({ type: 'retry', prompt: last.prompt });
}

export async function explain({ chat, view }: Services): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    const text = vscode.l10n.t('Explain this project.');
    await view.revealAndPost({ type: 'compose', text, chips: [], send: false });
    return;
  }
  await chat.open(null);
  const selection = selectionChip(editor);
  const text = selection ? vscode.l10n.t('Explain this code.') : vscode.l10n.t('Explain this file.');
  await view.revealAndPost({ type: 'compose', text, chips: [selection ?? documentChip(editor.document)], send: true });
}

/** Opens a new sample project in a window of its own. */
export async function openSample({ connection }: Services): Promise<void> {
  const { folder } = await connection.request('pilotfish/sample/create', {});
  await vscode.commands.executeCommand('vscode.openFolder', vscode.Uri.parse(folder), { forceNewWindow: true });
}

export async function fixProblems({ chat, view }: Services): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  const problems = document
    ? vscode.languages.getDiagnostics(document.uri).filter((one) => one.severity <= vscode.DiagnosticSeverity.Warning)
    : [];
  if (!document || problems.length === 0) {
    void showInfo(vscode.l10n.t('No problems in this file.'));
    return;
  }
  await chat.open(null);
  const text =
    problems.length === 1
      ? vscode.l10n.t('Fix this problem.')
      : vscode.l10n.t('Fix these {0} problems.', problems.length);
  await view.revealAndPost({ type: 'compose', text, chips: problemChips(document.uri, problems), send: true });
}
