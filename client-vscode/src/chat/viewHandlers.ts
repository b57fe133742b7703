/** What the host does for each message of the chat view: one table. */

import * as vscode from 'vscode';
import type { FromView, ViewCommand } from '../../webview/messages.ts';
import { showApprovalOfOtherSession } from '../approvals/approvalCommands.ts';
import { insertAtCursor, typeInTerminal } from '../editor/codeBlocks.ts';
import { openFile, openLink } from '../editor/links.ts';
import { showCallDiff, showTurnDiff } from '../editor/turnDiff.ts';
import { build } from '../models/modes.ts';
import type { Services } from '../services.ts';
import { showWarning } from '../widgets.ts';
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
  restore: ({ chat }, { turnId, prompt }) => chat.restore(turnId, prompt),
  build: (services) => build(services),
  fork: ({ chat }, { turnId }) => chat.fork(turnId),
  redoRestored: ({ chat }, { sessionId, turnIds }) => chat.redoRestored(sessionId, turnIds),
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
  findMentions: ({ chat }, { text }) => chat.findMentions(text),
  loadCommands: ({ chat }) => chat.loadCommands(),
  dropContext: ({ editorContext }, { dropped }) => editorContext.drop(dropped),
  dropped: (services, { uris }) => attachDropped(services, uris),
  withdraw: ({ chat }, { promptId }) => chat.queue.withdraw(promptId),
  resumeQueue: ({ chat }) => chat.queue.resume(),
  clearQueue: ({ chat }) => chat.queue.clearAll(),
  editQueued: async ({ chat, view }, { promptId, prompt }) => {
    await chat.queue.withdraw(promptId);
    view.post({ type: 'compose', ...toComposer(prompt), send: false });
  },
  steer: ({ chat }, { promptId }) => chat.queue.steer(promptId),
  reorder: ({ chat }, { promptIds }) => chat.queue.reorder(promptIds),

  answer: ({ approvals }, { type: _, approvalId, ...answer }) => approvals.answer(approvalId, answer),
  allowByRule: ({ approvals }, { approvalId, rule }) => approvals.allowByRule(approvalId, rule),
  answerAsk: ({ agentQuestions }, { id, answer }) => agentQuestions.answer(id, answer),
  allowTurnEdits: ({ approvals }, { approvalId }) => approvals.allowTurnEdits(approvalId),
  cards: ({ approvals }, { current, listed }) => approvals.setCards(current, listed),
  amend: ({ proposals }, { approvalId }) => proposals.showApproval(approvalId, 0, false),
  discardAmended: ({ proposals }, { approvalId }) => proposals.discardChanges(approvalId),
  openDiff: ({ proposals }, { approvalId, file }) => proposals.showApproval(approvalId, file, true),

  openCallDiff: ({ proposals }, { uri, diff }) => showCallDiff(proposals, uri, diff),
  review: ({ proposals }, { title, files }) => showTurnDiff(proposals, title, files),
  'review.decide': async ({ chat, review }, { decision, uri }) => {
    const sessionId = chat.session?.id;
    if (sessionId !== undefined) await review.decide(decision, { sessionId, ...(uri !== undefined && { uri }) });
  },
  'review.open': async ({ chat, review }, { uri }) => {
    if (chat.session) await review.openDiff(chat.session.id, uri);
  },
  openLink: (_, { href }) => openLink(href),
  openFile: (_, { uri, line }) => openFile(vscode.Uri.parse(uri), line),
  openText: ({ proposals }, { text, language }) => proposals.showText(text, language),
  copy: (_, { text }) => vscode.env.clipboard.writeText(text),
  insert: (_, { text }) => insertAtCursor(text),
  terminal: (_, { text }) => typeInTerminal(text),
  applyCode: ({ codeBlocks }, { text, info }) => codeBlocks.apply(text, info),

  command: async (services, { command }) => {
    const action = COMMANDS[command];
    if (typeof action === 'string') await vscode.commands.executeCommand(action);
    else await action(services);
  },
  problem: ({ log }, { what }) => {
    log.warn(what);
    if (!what.startsWith('CSP')) void showWarning(`Pilotfish: ${what}`);
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
  cancelInstall: async ({ server }) => server.cancelInstall(),
  cancelTask: async ({ task }) => task.cancel(),
  dismissTask: async ({ task }) => task.dismiss(),
  settings: 'pilotfish.settings',
  attachPick,
  explain: 'pilotfish.explain',
  openSample: 'pilotfish.openSample',
  trust: 'workbench.trust.manage',
  rules: 'pilotfish.rules',
  otherWaiting: showApprovalOfOtherSession,
};
