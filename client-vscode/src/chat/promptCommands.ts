/** Prompts that begin elsewhere than in the chat: in the editor, at a light bulb, from the palette. */

import * as vscode from 'vscode';
import type { ChatDraft } from '../protocol.gen.ts';
import type { Rooms } from '../services.ts';
import { composed, documentChip, problemChips, selectionChip } from './attachments.ts';
import { lastPrompt } from './turnHistory.ts';

export async function openChat({ view }: Rooms, draft: ChatDraft | undefined): Promise<void> {
  if (!draft?.prompt) {
    await view.tell({ type: 'focus' });
    return;
  }
  await view.tell({ type: 'compose', ...composed(draft.prompt), send: draft.send ?? false });
}

export async function retry({ chat, connection, view }: Rooms): Promise<void> {
  if (!chat.session) return;
  const last = await lastPrompt(connection, chat.session.id);
  if (!last) return;
  await view.tell({ type: 'retry', prompt: last.prompt });
}

export async function explain({ view }: Rooms): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    await view.tell({ type: 'compose', text: vscode.l10n.t('Explain this project.'), chips: [], send: false });
    return;
  }
  const selection = selectionChip(editor);
  const text = selection ? vscode.l10n.t('Explain this code.') : vscode.l10n.t('Explain this file.');
  await view.tell({ type: 'compose', text, chips: [selection ?? documentChip(editor.document)], send: true });
}

export async function fixProblems({ view }: Rooms): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  const problems = document
    ? vscode.languages.getDiagnostics(document.uri).filter((one) => one.severity <= vscode.DiagnosticSeverity.Warning)
    : [];
  if (!document || problems.length === 0) {
    void vscode.window.showInformationMessage(vscode.l10n.t('No problems in this file.'));
    return;
  }
  const text =
    problems.length === 1
      ? vscode.l10n.t('Fix this problem.')
      : vscode.l10n.t('Fix these {0} problems.', problems.length);
  await view.tell({ type: 'compose', text, chips: problemChips(document.uri, problems), send: true });
}
