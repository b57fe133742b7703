/** Palette, menus and keys, and what the chat asks for that is no matter of a session: two tables. */

import * as vscode from 'vscode';
import type { FromView, ViewCommand } from '../webview/messages.ts';
import { activeUri, allowAmended, answerByKey, showElsewhere, showFirst } from './approvals/approvalCommands.ts';
import { questionOf } from './approvals/proposals.ts';
import { rules } from './approvals/rules.ts';
import { attachDropped, attachFile, attachPick, attachSelection } from './chat/attaching.ts';
import { explain, fixProblems, openChat, retry } from './chat/promptCommands.ts';
import { insert, suggest, toTerminal } from './editor/codeSnippets.ts';
import { openFile, openLink } from './editor/links.ts';
import { showCallDiff, showReview } from './editor/turnDiff.ts';
import { tellFailure } from './errors.ts';
import { menu, status } from './menu.ts';
import type { ChatDraft, Session } from './protocol.gen.ts';
import type { Rooms } from './services.ts';
import { exported, fork, openSession, remove, rename, search } from './sessions/sessionCommands.ts';

export function registerCommands(rooms: Rooms): vscode.Disposable[] {
  const { server, view, chat, models, log } = rooms;
  const table: Record<string, (...args: never[]) => unknown> = {
    openChat: (draft?: ChatDraft) => openChat(rooms, draft),
    newSession: async () => {
      await chat.open(null);
      await view.tell({ type: 'focus' });
    },
    stop: () => chat.stop(),
    retry: () => retry(rooms),
    undoTurn: () => chat.undo(undefined, 'undo', false),
    redoTurn: () => chat.undo(undefined, 'redo', false),
    allow: () => answerByKey(rooms, 'allow_once'),
    deny: () => answerByKey(rooms, 'reject'),
    nextWaiting: () => showFirst(rooms),
    showDiff: () => rooms.proposals.showQuestion(rooms.approvals.current(chat.session?.id)?.approvalId ?? '', 0, false),
    allowAmended: (uri?: vscode.Uri) => allowAmended(rooms, uri),
    discardAmended: (uri?: vscode.Uri) => rooms.proposals.discard(questionOf(uri ?? activeUri()) ?? ''),
    attachSelection: () => attachSelection(rooms),
    attachFile: (uri?: vscode.Uri) => attachFile(rooms, uri),
    explain: () => explain(rooms),
    fixProblems: () => fixProblems(rooms),
    selectModel: () => models.select(),
    selectMode: () => models.selectMode(),
    configure: () => models.configure(),
    setKey: () => models.setKey(),
    rules: () => rules(rooms),
    status: () => status(rooms),
    menu: () => menu(rooms),
    settings: () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:pilotfish.pilotfish'),
    walkthrough: () =>
      vscode.commands.executeCommand('workbench.action.openWalkthrough', 'pilotfish.pilotfish#start', false),
    restart: () => server.restart(),
    install: () => server.install(),
    showLog: () => log.show(),
    'sessions.search': () => search(rooms),
    'sessions.refresh': () => rooms.sessions.refresh(),
    'sessions.open': (session: Session) => openSession(rooms, session.id),
    'sessions.rename': (session?: Session) => rename(rooms, session ?? chat.session),
    'sessions.delete': (session?: Session) => remove(rooms, session ?? chat.session),
    'sessions.fork': (session?: Session) => fork(rooms, session ?? chat.session),
    'sessions.export': (session?: Session) => exported(rooms, session ?? chat.session),
  };
  return Object.entries(table).map(([name, run]) =>
    vscode.commands.registerCommand(`pilotfish.${name}`, async (...args: never[]) => {
      try {
        return await run(...args);
      } catch (error) {
        tellFailure(error, log, name);
        return undefined;
      }
    }),
  );
}

/** What a button in the view may do: a command, or something that only the view asks for. */
const VIEW_COMMANDS: Record<ViewCommand, string | ((rooms: Rooms) => Promise<void>)> = {
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
  otherWaiting: showElsewhere,
};

/** What the view asks for beside its session. */
export async function fromView(rooms: Rooms, message: FromView): Promise<void> {
  const { proposals } = rooms;
  switch (message.type) {
    case 'command': {
      const does = VIEW_COMMANDS[message.command];
      if (typeof does === 'string') await vscode.commands.executeCommand(does);
      else await does(rooms);
      return;
    }
    case 'amend':
      await proposals.showQuestion(message.approvalId, 0, false);
      return;
    case 'discardAmended':
      await proposals.discard(message.approvalId);
      return;
    case 'openDiff':
      await proposals.showQuestion(message.approvalId, message.file, true);
      return;
    case 'openCallDiff':
      await showCallDiff(proposals, message.uri, message.diff);
      return;
    case 'review':
      await showReview(proposals, message.title, message.files);
      return;
    case 'openLink':
      await openLink(message.href);
      return;
    case 'openFile':
      await openFile(vscode.Uri.parse(message.uri), message.line);
      return;
    case 'openText':
      await proposals.showText(message.text, message.language);
      return;
    case 'copy':
      await vscode.env.clipboard.writeText(message.text);
      return;
    case 'insert':
      await insert(message.text);
      return;
    case 'terminal':
      toTerminal(message.text);
      return;
    case 'applyCode':
      await suggest(proposals, message.text);
      return;
    case 'dropped':
      await attachDropped(rooms, message.uris);
      return;
    case 'problem':
      rooms.log.warn(message.what);
      if (!message.what.startsWith('CSP')) void vscode.window.showWarningMessage(`Pilotfish: ${message.what}`);
      return;
    default:
      rooms.log.warn(`the view said ${message.type}`);
  }
}
