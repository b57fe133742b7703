/** Puts the parts together, and nothing else. */

import * as vscode from 'vscode';
import { showFirst, showQuestion } from './approvals/approvalCommands.ts';
import { Approvals } from './approvals/approvals.ts';
import { Notifications } from './approvals/notifications.ts';
import { Proposals } from './approvals/proposals.ts';
import { Chat } from './chat/chat.ts';
import { CHAT_VIEWS, View } from './chat/chatView.ts';
import { Drafts } from './chat/drafts.ts';
import { fromView, registerCommands } from './commands.ts';
import { serveEditor } from './editor/editorRequests.ts';
import { watched } from './errors.ts';
import { Models } from './models/models.ts';
import type { OptionId } from './protocol.gen.ts';
import { Connection } from './server/connection.ts';
import { Server } from './server/server.ts';
import { wireSettings } from './server/settings.ts';
import type { Rooms } from './services.ts';
import { Sessions } from './sessions/sessionTree.ts';
import { Status } from './statusBar.ts';

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('Pilotfish', { log: true });
  void vscode.commands.executeCommand(
    'setContext',
    'pilotfish.noSecondarySideBar',
    !hasSecondarySideBar(vscode.version),
  );
  const connection = new Connection();
  const approvals = new Approvals(connection);
  const proposals = new Proposals(approvals);
  const view = new View(context, log);
  const running = new Server(
    context,
    connection,
    log,
    {
      workspace: {
        configuration: () => [wireSettings()],
        didChangeConfiguration: async () => {
          await running.languageClient?.sendNotification('workspace/didChangeConfiguration', {
            settings: { pilotfish: wireSettings() },
          });
        },
      },
      // Lenses of the server run here, so that every surface gives its answer through the same door.
      executeCommand: async (command, args: { approvalId: string; optionId: OptionId }[], next) => {
        const [said] = args;
        if (command === 'pilotfish.approve' && said)
          return approvals.answer(said.approvalId, { optionId: said.optionId });
        if (command === 'pilotfish.preview' && said) return proposals.showQuestion(said.approvalId, 0, false);
        return next(command, args);
      },
    },
    () => view.isVisible,
  );
  server = running;
  const drafts = new Drafts(context.workspaceState);
  const sessions = new Sessions(connection, approvals, drafts, log);
  const chat = new Chat(
    context.workspaceState,
    view,
    connection,
    running,
    approvals,
    sessions,
    drafts,
    log,
    (message) => fromView(rooms, message),
  );
  const models = new Models(context, connection, chat);
  const rooms: Rooms = { connection, server: running, view, chat, approvals, proposals, drafts, sessions, models, log };
  serveEditor(connection, proposals, () => running.languageClient);
  context.subscriptions.push(
    log,
    running,
    sessions,
    approvals,
    proposals,
    view,
    chat,
    new Status(running, chat, approvals),
    new Notifications(
      approvals,
      (sessionId) => view.isVisible && chat.session?.id === sessionId,
      (approvalId) => showQuestion(rooms, approvalId),
      () => showFirst(rooms),
      log,
    ),
    ...CHAT_VIEWS.map((id) => vscode.window.registerWebviewViewProvider(id, view)),
    ...registerCommands(rooms),
    proposals.onDidAmend((said) => view.post({ type: 'amended', ...said })),
    view.onDidReceive((message) => {
      if (message.type === 'ready') proposals.tellAll();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      connection.notify('pilotfish/trust/changed', { trusted: true });
      view.post({ type: 'trusted', trusted: true });
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('pilotfish.server')) watched(running.restart(), log, 'restart');
      if (event.affectsConfiguration('pilotfish.model') || event.affectsConfiguration('pilotfish.baseUrl'))
        models.refresh().catch((error) => log.warn(String(error)));
    }),
    chat.onDidChange(() => {
      const model = chat.session?.model;
      if (model !== undefined && model !== chat.model?.current)
        models.refresh().catch((error) => log.warn(String(error)));
    }),
    running.onDidChange((state) => {
      void vscode.commands.executeCommand('setContext', 'pilotfish.ready', state.status === 'ready');
      if (state.status !== 'ready') return;
      Promise.all([models.connected(), chat.connected()]).catch((error) => log.error(String(error)));
    }),
  );
  await running.start();
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}

/** The secondary side bar takes containers since 1.106; before that, the activity bar has ours. */
function hasSecondarySideBar(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 1 || minor >= 106;
}
