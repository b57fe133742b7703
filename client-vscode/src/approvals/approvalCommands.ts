/** Commands that show or answer approvals from outside the card: keyboard shortcuts, the diff editor, the status menu. */

import * as vscode from 'vscode';
import type { Services } from '../services.ts';
import { flashStatus, showInfo } from '../widgets.ts';
import { approvalIdOf } from './proposals.ts';
import type { WaitingItem } from './waiting.ts';

/** Opens the approval's session, scrolls to its card and focuses it. */
export async function showApproval({ approvals, chat, view }: Services, approvalId: string | undefined): Promise<void> {
  const request = approvalId === undefined ? undefined : approvals.find(approvalId);
  if (!request) {
    flashStatus(vscode.l10n.t('Pilotfish: no approvals waiting'), 3000);
    return;
  }
  if (request.sessionId !== chat.session?.id) await chat.open(request.sessionId);
  await view.revealAndPost({ type: 'reveal', approvalId: request.approvalId });
}

/** Shows an approval, or the session of a question in the agent's own words, which stands above the composer. */
export async function showWaiting(
  services: Services,
  { sessionId, approvalId }: Pick<WaitingItem, 'sessionId' | 'approvalId'>,
): Promise<void> {
  if (approvalId !== undefined) return showApproval(services, approvalId);
  const { chat, view } = services;
  if (sessionId !== chat.session?.id) await chat.open(sessionId);
  await view.revealAndPost({ type: 'focus' });
}

/** Shows the next approval of the session in view, in the order of the chat, or the oldest of another session. */
export async function showNextApproval(services: Services): Promise<void> {
  const { approvals, waiting, chat, view } = services;
  const hasOwn = approvals.pending.some((request) => request.sessionId === chat.session?.id);
  if (hasOwn) await view.revealAndPost({ type: 'reveal', approvalId: null });
  else await showWaiting(services, waiting.items[0] ?? { sessionId: chat.session?.id ?? '', approvalId: '' });
}

/** Shows the oldest approval of a session that is not in view. */
export async function showApprovalOfOtherSession(services: Services): Promise<void> {
  const { approvals, chat } = services;
  const other = approvals.pending.find((request) => request.sessionId !== chat.session?.id);
  await showApproval(services, other?.approvalId);
}

/** Answers the current approval if its card is visible. Otherwise shows the card, and the next key press answers. */
export async function answerByKey(services: Services, optionId: 'allow_once' | 'reject'): Promise<void> {
  const { approvals, chat } = services;
  const current = approvals.current(chat.session?.id);
  if (!current) return;
  if (approvals.isCardVisible(current.approvalId)) {
    if (approvals.acceptsKeys(current.approvalId)) await approvals.answer(current.approvalId, { optionId });
    return;
  }
  await showApproval(services, current.approvalId);
}

/** Allows the proposal in the active diff editor, with the user's changes, or denies it. */
export async function answerProposal(
  { approvals }: Services,
  uri: vscode.Uri | undefined,
  optionId: 'allow_once' | 'reject',
): Promise<void> {
  const approvalId = approvalIdOf(uri ?? activeUri());
  if (approvalId === undefined || !approvals.find(approvalId)) {
    void showInfo(vscode.l10n.t('Already answered'));
    return;
  }
  await approvals.answer(approvalId, { optionId });
}

/** Discards the user's changes to the proposal in the active diff editor. */
export async function discardAmended({ proposals }: Services, uri: vscode.Uri | undefined): Promise<void> {
  await proposals.discardChanges(approvalIdOf(uri ?? activeUri()) ?? '');
}

function activeUri(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputTextDiff ? input.modified : vscode.window.activeTextEditor?.document.uri;
}
