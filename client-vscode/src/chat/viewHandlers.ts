/** What the host does for each message of the chat view: one table. */

import * as vscode from 'vscode';
import type { FromView, ViewCommand } from '../../webview/messages.ts';
import { showApprovalOfOtherSession } from '../approvals/approvalCommands.ts';
import { insertAtCursor, showAsDiff, typeInTerminal } from '../editor/codeSnippets.ts';
import { openFile, openLink } from '../editor/links.ts';
import { showCallDiff, showTurnDiff } from '../editor/turnDiff.ts';
import type { Services } from '../services.ts';
import { attachDropped, attachPick, toComposer } from './attachments.ts';
import { sendInitialState } from './viewSync.ts';

type Handlers = {
  [T in FromView['type']]: (services: Services, message: Extract<FromView, { type: T }>) => unknown;
};

export async function handleViewMessage(services: Services, message: FromView): Promise<void> {
  await HANDLERS[message.type](services, message as never);
}

const HANDLERS: Handlers = {
  ready: (services) => sendInitialState(services),

  send: ({ chat }, message) => chat.send(message),
  resend: ({ chat }, message) => chat.resend(message),
  stop: ({ chat }) => chat.stop(),
  stopCall: ({ chat }, { callId }) => chat.stopCall(callId),
  forceStop: ({ server }) => server.restart(),
  retryNow: ({ chat }) => chat.retryNow(),
  undo: ({ chat }, { turnId, direction, rest }) => chat.undo(turnId, direction, rest),
  older: ({ chat }, { before }) => chat.loadOlder(before),
  reload: async ({ chat }) => {
    if (chat.session) await chat.open(chat.session.id);
  },
  openSession: ({ chat }, { sessionId }) => chat.open(sessionId),

  draft: ({ drafts, sessions }, { sessionId, draft }) => {
    drafts.save(sessionId, draft);
    sessions.render();
  },
  mention: ({ chat }, { query }) => chat.completeMention(query),
  dropped: (services, { uris }) => attachDropped(services, uris),
  withdraw: ({ chat }, { promptId }) => chat.queue.withdraw(promptId),
  editQueued: async ({ chat, view }, { promptId, prompt }) => {
    await chat.queue.withdraw(promptId);
    view.post({ type: 'compose', ...toComposer(prompt), send: false });
  },
  steer: ({ chat }, { promptId }) => chat.queue.steer(promptId),
  reorder: ({ chat }, { promptIds }) => chat.queue.reorder(promptIds),

  answer: ({ approvals }, { type: _, approvalId, ...answer }) => approvals.answer(approvalId, answer),
  allowByRule: ({ approvals }, { approvalId, rule }) => approvals.allowByRule(approvalId, rule),
  answerAsk: ({ agentQuestions }, { id, answer }) => agentQuestions.answer(id, answer),
  visibleCards: ({ approvals }, { approvalIds, focused, others }) =>
    approvals.setVisibleCards(approvalIds, focused, others),
  amend: ({ proposals }, { approvalId }) => proposals.showApproval(approvalId, 0, false),
  discardAmended: ({ proposals }, { approvalId }) => proposals.discardChanges(approvalId),
  openDiff: ({ proposals }, { approvalId, file }) => proposals.showApproval(approvalId, file, true),

  openCallDiff: ({ proposals }, { uri, diff }) => showCallDiff(proposals, uri, diff),
  review: ({ proposals }, { title, files }) => showTurnDiff(proposals, title, files),
  openLink: (_, { href }) => openLink(href),
  openFile: (_, { uri, line }) => openFile(vscode.Uri.parse(uri), line),
  openText: ({ proposals }, { text, language }) => proposals.showText(text, language),
  copy: (_, { text }) => vscode.env.clipboard.writeText(text),
  insert: (_, { text }) => insertAtCursor(text),
  terminal: (_, { text }) => typeInTerminal(text),
  applyCode: ({ proposals }, { text }) => showAsDiff(proposals, text),

  command: async (services, { command }) => {
    const action = COMMANDS[command];
    if (typeof action === 'string') await vscode.commands.executeCommand(action);
    else await action(services);
  },
  problem: ({ log }, { what }) => {
    log.warn(what);
    if (!what.startsWith('CSP')) void vscode.window.showWarningMessage(`Pilotfish: ${what}`);
  },
};

/** Buttons of the view: the name of a VS Code command, or a function that only the view uses. */
const COMMANDS: Record<ViewCommand, string | ((services: Services) => Promise<void>)> = {
  newSession: 'pilotfish.newSession',
  selectModel: 'pilotfish.selectModel',
  selectMode: 'pilotfish.selectMode',
  configure: 'pilotfish.configure',
  setKey: ({ models }) => models.updateKey(),
  restart: 'pilotfish.restart',
  showLog: 'pilotfish.showLog',
  install: 'pilotfish.install',
  settings: 'pilotfish.settings',
  attachPick,
  explain: 'pilotfish.explain',
  trust: 'workbench.trust.manage',
  rules: 'pilotfish.rules',
  otherWaiting: showApprovalOfOtherSession,
};
