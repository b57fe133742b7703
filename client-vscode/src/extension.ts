/** The entry point: creates the services and connects them. */

import * as vscode from 'vscode';
import { l10n } from '../webview/common/l10n.ts';
import { AgentQuestions } from './approvals/agentQuestions.ts';
import { showApproval, showNextApproval } from './approvals/approvalCommands.ts';
import { Approvals } from './approvals/approvals.ts';
import { Notifications } from './approvals/notifications.ts';
import { Proposals } from './approvals/proposals.ts';
import { Chat } from './chat/chat.ts';
import { CHAT_VIEWS, ChatView, translations } from './chat/chatView.ts';
import { Drafts } from './chat/drafts.ts';
import { handleViewMessage } from './chat/viewHandlers.ts';
import { forwardChanges } from './chat/viewSync.ts';
import { registerCommands } from './commands.ts';
import { registerEditorRequests } from './editor/editorRequests.ts';
import { reportRejection } from './errors.ts';
import { Models } from './models/models.ts';
import type { OptionId } from './protocol.gen.ts';
import { Connection } from './server/connection.ts';
import { Server } from './server/server.ts';
import { serverSettings } from './server/settings.ts';
import type { Services } from './services.ts';
import { SessionTree } from './sessions/sessionTree.ts';
import { StatusBar } from './statusBar.ts';

let runningServer: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  l10n.load(translations());
  void vscode.commands.executeCommand(
    'setContext',
    'pilotfish.noSecondarySideBar',
    !hasSecondarySideBar(vscode.version),
  );
  const services = createServices(context);
  const { server, view, chat, approvals, agentQuestions, proposals, sessions, log } = services;
  runningServer = server;
  registerEditorRequests(services.connection, proposals, () => server.languageClient);
  context.subscriptions.push(
    log,
    server,
    sessions,
    approvals,
    agentQuestions,
    proposals,
    view,
    chat,
    new StatusBar(server, chat, approvals),
    new Notifications(
      approvals,
      (sessionId) => view.isVisible && chat.session?.id === sessionId,
      (approvalId) => showApproval(services, approvalId),
      () => showNextApproval(services),
      log,
    ),
    ...CHAT_VIEWS.map((id) => vscode.window.registerWebviewViewProvider(id, view)),
    ...registerCommands(services),
    ...forwardChanges(services),
    ...handleEvents(services),
  );
  await server.start();
}

export async function deactivate(): Promise<void> {
  await runningServer?.stop();
}

function createServices(context: vscode.ExtensionContext): Services {
  const log = vscode.window.createOutputChannel('Pilotfish', { log: true });
  const connection = new Connection();
  const approvals = new Approvals(connection);
  const proposals = new Proposals(approvals);
  const view = new ChatView(context, log);
  const drafts = new Drafts(context.workspaceState);
  const sessions = new SessionTree(connection, approvals, drafts, log);
  const chat = new Chat(context.workspaceState, view, connection, approvals, sessions, drafts, log);
  const showSession = async (sessionId: string) => {
    if (sessionId !== chat.session?.id) await chat.open(sessionId);
    await view.reveal(true);
  };
  const server: Server = new Server(
    context,
    connection,
    log,
    {
      workspace: {
        configuration: () => [serverSettings()],
        didChangeConfiguration: async () => {
          await server.languageClient?.sendNotification('workspace/didChangeConfiguration', {
            settings: { pilotfish: serverSettings() },
          });
        },
      },
      // The commands of the server's code lenses run here, so that every answer goes through `Approvals`.
      executeCommand: async (command, args: { approvalId: string; optionId: OptionId }[], next) => {
        const [arg] = args;
        if (command === 'pilotfish.approve' && arg) return approvals.answer(arg.approvalId, { optionId: arg.optionId });
        if (command === 'pilotfish.preview' && arg) return proposals.showApproval(arg.approvalId, 0, false);
        return next(command, args);
      },
    },
    () => view.isVisible,
  );
  return {
    connection,
    server,
    view,
    chat,
    approvals,
    agentQuestions: new AgentQuestions(connection, view, showSession, log),
    proposals,
    drafts,
    sessions,
    models: new Models(context, connection, chat),
    log,
  };
}

function handleEvents(services: Services): vscode.Disposable[] {
  const { connection, server, view, chat, approvals, agentQuestions, sessions, models, log } = services;
  const refreshModel = () => models.refresh().catch((error) => log.warn(String(error)));
  return [
    view.onDidReceive((message) => reportRejection(handleViewMessage(services, message), log, message.type)),
    server.onDidChange((state) => {
      void vscode.commands.executeCommand('setContext', 'pilotfish.ready', state.status === 'ready');
      if (state.status !== 'ready') return;
      const started = [models.handleServerStarted(), sessions.load(), chat.openLast(), chat.loadCommands()];
      Promise.all(started).catch((error) => log.error(String(error)));
    }),
    server.onDidCrash(() => {
      approvals.clear();
      agentQuestions.clear();
      chat.handleServerCrash();
    }),
    chat.onDidChange(() => {
      const model = chat.session?.model;
      if (model !== undefined && model !== chat.model?.current) void refreshModel();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      connection.notify('pilotfish/trust/changed', { trusted: true });
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('pilotfish.server')) reportRejection(server.restart(), log, 'restart');
      if (event.affectsConfiguration('pilotfish.model') || event.affectsConfiguration('pilotfish.baseUrl'))
        void refreshModel();
    }),
  ];
}

/** Extensions can add views to the secondary side bar since VS Code 1.106. Older versions use the activity bar. */
function hasSecondarySideBar(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 1 || minor >= 106;
}
