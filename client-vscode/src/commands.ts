/** Registers the commands of the palette, the menus and the keyboard shortcuts: one table. */

import * as vscode from 'vscode';
import { answerByKey, answerProposal, discardAmended, showNextApproval } from './approvals/approvalCommands.ts';
import { manageRules } from './approvals/rules.ts';
import { attachFile, attachSelection } from './chat/attachments.ts';
import { explain, fixProblems, openChat, openSample, retry } from './chat/promptCommands.ts';
import type { EditPlace } from './editor/inlineEdit.ts';
import { reportFailure } from './errors.ts';
import { configure, selectMode } from './models/modes.ts';
import type { ChatDraft, Session } from './protocol.gen.ts';
import type { Services } from './services.ts';
import { manageBackground, runInBackground } from './sessions/background.ts';
import {
  copySession,
  deleteSession,
  exportSession,
  openSession,
  renameSession,
  searchSessions,
} from './sessions/sessionCommands.ts';
import { showMenu, showStatus } from './statusBar.ts';

export function registerCommands(services: Services): vscode.Disposable[] {
  const { server, view, chat, approvals, proposals, models, review, inlineEdits, log } = services;
  const table: Record<string, (...args: never[]) => unknown> = {
    openChat: (draft?: ChatDraft) => openChat(services, draft),
    newSession: async () => {
      await chat.open(null);
      await view.revealAndPost({ type: 'focus' });
    },
    find: () => view.revealAndPost({ type: 'find' }),
    stop: () => chat.stop(),
    retry: () => retry(services),
    undoTurn: () => chat.undo(undefined, 'undo', false),
    redoTurn: () => chat.undo(undefined, 'redo', false),
    edit: (place?: EditPlace) => inlineEdits.start(place),
    applyCode: (uri?: vscode.Uri) => services.codeBlocks.accept(uri),
    discardCode: (uri?: vscode.Uri) => services.codeBlocks.discard(uri),
    undoEdit: () => inlineEdits.undo(),
    keepChange: () => review.decideAtCursor('keep'),
    undoChange: () => review.decideAtCursor('undo'),
    keepAllChanges: () => review.decideAll('keep', chat.session?.id),
    undoAllChanges: () => review.decideAll('undo', chat.session?.id),
    nextChange: () => review.goTo(1),
    previousChange: () => review.goTo(-1),
    authors: () => services.authorship.toggle(),
    allow: () => answerByKey(services, 'allow_once'),
    deny: () => answerByKey(services, 'reject'),
    nextWaiting: () => showNextApproval(services),
    showDiff: () => proposals.showApproval(approvals.current(chat.session?.id)?.approvalId ?? '', 0, false),
    allowAmended: (uri?: vscode.Uri) => answerProposal(services, uri, 'allow_once'),
    denyProposal: (uri?: vscode.Uri) => answerProposal(services, uri, 'reject'),
    discardAmended: (uri?: vscode.Uri) => discardAmended(services, uri),
    attachSelection: () => attachSelection(services),
    attachFile: (uri?: vscode.Uri) => attachFile(services, uri),
    explain: () => explain(services),
    fixProblems: () => fixProblems(services),
    selectModel: () => models.select(),
    selectMode: () => selectMode(services),
    configure: () => configure(services),
    setKey: () => models.setKey(),
    rules: () => manageRules(services),
    mcpServers: () => services.mcpServers.show(),
    status: () => showStatus(services),
    menu: () => showMenu(services),
    settings: () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:pilotfish.pilotfish'),
    walkthrough: () =>
      vscode.commands.executeCommand('workbench.action.openWalkthrough', 'pilotfish.pilotfish#start', false),
    openSample: () => openSample(services),
    restart: () => server.restart(),
    install: () => server.install(),
    showLog: () => log.show(),
    background: () => runInBackground(services),
    'sessions.background': (session?: Session) => manageBackground(services, session ?? chat.session),
    'sessions.search': () => searchSessions(services),
    'sessions.refresh': () => services.sessions.reloadSoon(),
    'sessions.open': (session: Session) => openSession(services, session.id),
    'sessions.rename': (session?: Session) => renameSession(services, session ?? chat.session),
    'sessions.delete': (session?: Session) => deleteSession(services, session ?? chat.session),
    'sessions.fork': (session?: Session) => copySession(services, session ?? chat.session),
    'sessions.export': (session?: Session) => exportSession(services, session ?? chat.session),
  };
  return Object.entries(table).map(([name, run]) =>
    vscode.commands.registerCommand(`pilotfish.${name}`, async (...args: never[]) => {
      try {
        return await run(...args);
      } catch (error) {
        reportFailure(error, log, name);
        return undefined;
      }
    }),
  );
}
