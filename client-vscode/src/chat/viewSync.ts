/** Keeps the chat view up to date: sends it the whole state when its page is ready, and every change after that. */

import * as vscode from 'vscode';
import type { Services } from '../services.ts';
import { translations } from './chatView.ts';

const RECENT_SESSIONS = 5;

/** Forwards the changes of all services to the view until the returned subscriptions are disposed. */
export function forwardChanges(services: Services): vscode.Disposable[] {
  const { view, approvals, agentQuestions, proposals, sessions, server } = services;
  return [
    approvals.onDidAdd((request) => view.post({ type: 'approval', request })),
    approvals.onDidResolve((resolved) => view.post({ type: 'resolved', resolved })),
    approvals.onDidRefuse((refused) => {
      view.post({ type: 'answerRefused', ...refused });
      if (!approvals.isCardVisible(refused.approvalId)) void vscode.window.showWarningMessage(refused.message);
    }),
    approvals.onDidChange(() => showWaitingCount(services)),
    agentQuestions.onDidChange(() => showWaitingCount(services)),
    proposals.onDidAmend((amended) => view.post({ type: 'amended', ...amended })),
    sessions.onDidLoad((list) => view.post({ type: 'recent', sessions: list.slice(0, RECENT_SESSIONS) })),
    server.onDidChange((state) => view.post({ type: 'server', server: state })),
    view.onDidHide(() => approvals.setVisibleCards([], null)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => view.post({ type: 'trusted', trusted: true })),
  ];
}

/** Sends everything that a new page needs, and then the messages that waited for it. */
export async function sendInitialState(services: Services): Promise<void> {
  const { view, chat, server, sessions, approvals, agentQuestions, proposals, connection } = services;
  view.post({
    type: 'hello',
    words: translations(),
    mac: process.platform === 'darwin',
    trusted: vscode.workspace.isTrusted,
  });
  view.post({ type: 'server', server: server.state });
  if (chat.model) view.post({ type: 'model', model: chat.model });
  view.post({ type: 'recent', sessions: sessions.all.slice(0, RECENT_SESSIONS) });
  for (const request of approvals.pending) view.post({ type: 'approval', request });
  for (const ask of agentQuestions.pending) view.post({ type: 'ask', ask });
  proposals.reportAmended();
  try {
    if (connection.connected && server.state.status === 'ready') {
      await Promise.all([chat.openLast(), chat.loadCommands()]);
    }
  } finally {
    view.postDeferred();
  }
}

function showWaitingCount({ approvals, agentQuestions, view }: Services): void {
  const waiting = approvals.pending.length;
  void vscode.commands.executeCommand('setContext', 'pilotfish.waiting', waiting > 0);
  view.setBadge(waiting + agentQuestions.pending.length);
}
