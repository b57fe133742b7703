/** Answers from outside the card: chords, the diff editor, the status menu. */

import * as vscode from 'vscode';
import type { Rooms } from '../services.ts';
import { questionOf } from './proposals.ts';

/** The question's card in sight, in its session; the focus follows because the user asked. */
export async function showQuestion({ approvals, chat, view }: Rooms, approvalId: string | undefined): Promise<void> {
  const request = approvalId === undefined ? undefined : approvals.find(approvalId);
  if (!request) {
    void vscode.window.setStatusBarMessage(vscode.l10n.t('Pilotfish: nothing waits'), 3000);
    return;
  }
  if (request.sessionId !== chat.session?.id) await chat.open(request.sessionId);
  await view.tell({ type: 'reveal', approvalId: request.approvalId });
}

/** The card of the first question that waits, as the chat orders them. */
export async function showFirst(rooms: Rooms): Promise<void> {
  const { approvals, chat, view } = rooms;
  const here = approvals.open.some((request) => request.sessionId === chat.session?.id);
  if (here) await view.tell({ type: 'reveal', approvalId: null });
  else await showQuestion(rooms, approvals.open[0]?.approvalId);
}

/** The card of the first question that waits in another session than the one in view. */
export async function showElsewhere(rooms: Rooms): Promise<void> {
  const { approvals, chat } = rooms;
  const elsewhere = approvals.open.find((request) => request.sessionId !== chat.session?.id);
  await showQuestion(rooms, elsewhere?.approvalId);
}

/** A chord answers only what can be seen; otherwise it brings it into sight, and the next one answers. */
export async function answerByKey(rooms: Rooms, optionId: 'allow_once' | 'reject'): Promise<void> {
  const { approvals, chat } = rooms;
  const next = approvals.current(chat.session?.id);
  if (!next) return;
  if (approvals.isInSight(next.approvalId)) {
    if (approvals.hearsKeys(next.approvalId)) await approvals.answer(next.approvalId, { optionId });
    return;
  }
  await showQuestion(rooms, next.approvalId);
}

export async function allowAmended({ approvals }: Rooms, uri: vscode.Uri | undefined): Promise<void> {
  const approvalId = questionOf(uri ?? activeUri());
  if (approvalId === undefined || !approvals.find(approvalId)) {
    void vscode.window.showInformationMessage(vscode.l10n.t('Already answered'));
    return;
  }
  await approvals.answer(approvalId, { optionId: 'allow_once' });
}

export function activeUri(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputTextDiff ? input.modified : vscode.window.activeTextEditor?.document.uri;
}
