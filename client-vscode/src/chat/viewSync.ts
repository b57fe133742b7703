/** Keeps the chat view up to date: sends it the whole state when its page is ready, and every change after that. */

import * as vscode from 'vscode';
import type { Services } from '../services.ts';
import { showWarning } from '../widgets.ts';
import { translations } from './chatView.ts';

const RECENT_SESSIONS = 5;

/** Forwards the changes of all services to the view until the returned subscriptions are disposed. */
export function forwardChanges(services: Services): vscode.Disposable[] {
  const { view, approvals, waiting, finished, proposals, sessions, server, chat, review, editorContext } = services;
  return [
    approvals.onDidAdd((request) => view.post({ type: 'approval', request })),
    approvals.onDidResolve((resolved) => view.post({ type: 'resolved', resolved })),
    approvals.onDidRefuse((refused) => {
      view.post({ type: 'answerRefused', ...refused });
      if (!approvals.isCardVisible(refused.approvalId)) void showWarning(refused.message);
    }),
    waiting.onDidChange(() => showCounts(services)),
    finished.onDidChange(() => showCounts(services)),
    proposals.onDidAmend((amended) => view.post({ type: 'amended', ...amended })),
    sessions.onDidLoad((list) => view.post({ type: 'recent', sessions: list.slice(0, RECENT_SESSIONS) })),
    server.onDidChange((state) => view.post({ type: 'server', server: state })),
    services.task.onDidChange((task) => view.post({ type: 'task', task })),
    review.onDidChange(() => postPending(services)),
    chat.onDidChange(() => postPending(services)),
    editorContext.onDidChange(() => postLooking(services)),
    view.onDidHide(() => approvals.setCards(null, [])),
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
  view.post({ type: 'task', task: services.task.state });
  if (chat.model) view.post({ type: 'model', model: chat.model });
  view.post({ type: 'recent', sessions: sessions.all.slice(0, RECENT_SESSIONS) });
  for (const request of approvals.pending) view.post({ type: 'approval', request });
  for (const ask of agentQuestions.pending) view.post({ type: 'ask', ask });
  proposals.reportAmended();
  postPending(services);
  postLooking(services);
  try {
    if (connection.connected && server.state.status === 'ready') {
      await Promise.all([chat.openLast(), chat.loadCommands()]);
    }
  } finally {
    view.postDeferred();
  }
}

function postPending({ view, chat, review }: Services): void {
  const files = review.ofSession(chat.session?.id).map(({ uri, change, added, removed }) => ({
    uri,
    path: vscode.workspace.asRelativePath(vscode.Uri.parse(uri)),
    change,
    added,
    removed,
  }));
  view.post({ type: 'pending', files });
}

function postLooking({ view, editorContext }: Services): void {
  view.post({ type: 'looking', looking: editorContext.looking() });
}

function showCounts({ waiting, finished, view }: Services): void {
  const { items } = waiting;
  void vscode.commands.executeCommand('setContext', 'pilotfish.waiting', items.length > 0);
  view.setBadge(items.length, finished.count);
}
