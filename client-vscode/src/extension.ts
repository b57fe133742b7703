/** The entry point: creates the services and connects them. */

import * as vscode from 'vscode';
import { l10n } from '../webview/common/l10n.ts';
import { AgentQuestions } from './approvals/agentQuestions.ts';
import { showApproval, showNextApproval } from './approvals/approvalCommands.ts';
import { Approvals } from './approvals/approvals.ts';
import { Notifications } from './approvals/notifications.ts';
import { Proposals } from './approvals/proposals.ts';
import { Waiting } from './approvals/waiting.ts';
import { Chat } from './chat/chat.ts';
import { CHAT_VIEWS, ChatView, hasSecondarySideBar, translations } from './chat/chatView.ts';
import { Drafts } from './chat/drafts.ts';
import { LongTask } from './chat/longTask.ts';
import { handleViewMessage } from './chat/viewHandlers.ts';
import { forwardChanges } from './chat/viewSync.ts';
import { registerCommands } from './commands.ts';
import { CodeBlocks } from './editor/codeBlocks.ts';
import { EditorContextSource } from './editor/editorContext.ts';
import { applyAndSave, registerEditorRequests } from './editor/editorRequests.ts';
import { InlineEdits } from './editor/inlineEdit.ts';
import { TerminalOutput } from './editor/terminal.ts';
import { reportFailure, reportRejection } from './errors.ts';
import { McpServers } from './mcp/mcpServers.ts';
import { Keys } from './models/keys.ts';
import { LanguageModels } from './models/languageModels.ts';
import { Models } from './models/models.ts';
import type { InlineRetryParams, OptionId, ReviewParams } from './protocol.gen.ts';
import { Authorship } from './review/authorship.ts';
import { Review } from './review/review.ts';
import { Connection } from './server/connection.ts';
import { Server } from './server/server.ts';
import { serverSettings } from './server/settings.ts';
import type { Services } from './services.ts';
import { FinishedTurns } from './sessions/finishedTurns.ts';
import { SessionTree } from './sessions/sessionTree.ts';
import { workspaceFolder } from './sessions/workspaceFolder.ts';
import { StatusBar } from './statusBar.ts';
import { literalLenses } from './widgets.ts';

let runningServer: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  l10n.load(translations());
  void vscode.commands.executeCommand('setContext', 'pilotfish.noSecondarySideBar', !hasSecondarySideBar());
  const services = createServices(context);
  const { server, view, chat, approvals, agentQuestions, proposals, sessions, log } = services;
  runningServer = server;
  registerEditorRequests(services.connection, proposals, () => server.languageClient);
  context.subscriptions.push(
    log,
    server,
    sessions,
    services.review,
    services.authorship,
    services.inlineEdits,
    services.codeBlocks,
    services.waiting,
    services.finished,
    services.editorContext,
    new TerminalOutput(services.connection),
    services.task,
    services.languageModels,
    approvals,
    agentQuestions,
    proposals,
    view,
    chat,
    new StatusBar(server, chat, services.waiting, services.finished),
    new Notifications(
      approvals,
      (sessionId) => view.isVisible && chat.session?.id === sessionId,
      (approvalId) => showApproval(services, approvalId),
      () => showNextApproval(services),
      (sessionId) => sessions.find(sessionId)?.workspaceFolder ?? workspaceFolder(),
      log,
    ),
    ...CHAT_VIEWS.map((id) => vscode.window.registerWebviewViewProvider(id, view)),
    ...registerCommands(services),
    ...forwardChanges(services),
    ...handleEvents(services),
  );
  const started = server.start();
  await revealOnce(context, services);
  await started;
}

/** Shows the chat after the extension was installed: a new view is easily overlooked beside others. */
async function revealOnce({ globalState }: vscode.ExtensionContext, { view }: Services): Promise<void> {
  if (globalState.get(REVEALED)) return;
  await globalState.update(REVEALED, true);
  await view.reveal(false);
}

const REVEALED = 'pilotfish.revealed';

export async function deactivate(): Promise<void> {
  await runningServer?.stop();
}

function createServices(context: vscode.ExtensionContext): Services {
  const log = vscode.window.createOutputChannel('Pilotfish', { log: true });
  const connection = new Connection();
  const approvals = new Approvals(connection);
  const proposals = new Proposals(approvals);
  const view = new ChatView(context, log);
  const review = new Review(connection, proposals, log);
  const authorship = new Authorship(connection, log);
  const drafts = new Drafts(context.workspaceState);
  const showSession = async (sessionId: string) => {
    if (sessionId !== chat.session?.id) await chat.open(sessionId);
    await view.reveal(true);
  };
  const agentQuestions = new AgentQuestions(connection, view, showSession, log);
  const waiting = new Waiting(approvals, agentQuestions);
  const finished: FinishedTurns = new FinishedTurns(
    connection,
    context.workspaceState,
    (sessionId) => view.isVisible && chat.session?.id === sessionId,
    (sessionId) => sessions.find(sessionId)?.title,
    showSession,
    log,
  );
  const sessions: SessionTree = new SessionTree(connection, waiting, finished, drafts, log);
  const editorContext = new EditorContextSource(context.workspaceState, connection);
  const chat: Chat = new Chat(context.workspaceState, view, connection, approvals, sessions, drafts, log, () =>
    editorContext.block(),
  );
  const inlineEdits = new InlineEdits(connection, review, showSession);
  const server: Server = new Server(context, connection, log, {
    workspace: {
      configuration: () => [serverSettings()],
      handleApplyEdit: async (params, next) => {
        const { changes = {}, documentChanges = [] } = params.edit;
        const changed = documentChanges.flatMap((change) =>
          'textDocument' in change ? [change.textDocument.uri] : [],
        );
        return applyAndSave([...Object.keys(changes), ...changed], async () =>
          next(params, new vscode.CancellationTokenSource().token),
        );
      },
      didChangeConfiguration: async () => {
        await server.languageClient?.sendNotification('workspace/didChangeConfiguration', {
          settings: { pilotfish: serverSettings() },
        });
      },
    },
    provideCodeLenses: async (document, token, next) => literalLenses(await next(document, token)),
    resolveCodeLens: async (lens, token, next) => literalLenses([(await next(lens, token)) ?? lens])?.[0],
    // The commands of the server's code lenses run here, so that every answer goes through `Approvals`.
    executeCommand: async (command, args: { approvalId: string; optionId: OptionId }[], next) => {
      const [arg] = args;
      if (command === 'pilotfish.approve' && arg) return approvals.answer(arg.approvalId, { optionId: arg.optionId });
      if (command === 'pilotfish.preview' && arg) return proposals.showApproval(arg.approvalId, 0, false);
      if (command === 'pilotfish.edit.retry')
        return inlineEdits.retry((args[0] as unknown as InlineRetryParams).sessionId);
      if (command.startsWith('pilotfish.review.')) return review.runLens(command, args[0] as unknown as ReviewParams);
      return next(command, args);
    },
  });
  const keys = new Keys(context, connection);
  const task = new LongTask(() => view.reveal(false), log);
  return {
    connection,
    editorContext,
    server,
    view,
    chat,
    approvals,
    agentQuestions,
    waiting,
    finished,
    proposals,
    drafts,
    sessions,
    review,
    authorship,
    inlineEdits,
    codeBlocks: new CodeBlocks(connection),
    models: new Models(keys, connection, chat, server, task),
    mcpServers: new McpServers(connection, keys, (error) => reportFailure(error, log)),
    task,
    languageModels: new LanguageModels(connection, log),
    log,
  };
}

function handleEvents(services: Services): vscode.Disposable[] {
  const { connection, server, view, chat, approvals, agentQuestions, sessions, models, review, log } = services;
  const refreshModel = () => models.refresh().catch((error) => log.warn(String(error)));
  return [
    view.onDidReceive(({ type }) => type === 'ready' && services.finished.markRead(chat.session?.id)),
    view.onDidReceive((message) => reportRejection(handleViewMessage(services, message), log, message.type)),
    server.onDidChange((state) => {
      void vscode.commands.executeCommand('setContext', 'pilotfish.ready', state.status === 'ready');
      review.refreshSoon();
      if (state.status !== 'ready') return;
      void services.languageModels.offer();
      const started = [models.handleServerStarted(), sessions.load(), chat.openLast(), chat.loadCommands()];
      Promise.all(started).catch((error) => log.error(String(error)));
    }),
    server.onDidCrash(() => {
      approvals.clear();
      agentQuestions.clear();
      chat.handleServerCrash();
    }),
    services.languageModels.onDidOffer(() => void refreshModel()),
    sessions.onDidReveal(() => reportRejection(view.reveal(false), log)),
    chat.onDidOpen(() => review.refreshSoon()),
    chat.onDidChange(() => {
      view.setSessionTitle(chat.session?.title ?? '');
      if (view.isVisible) services.finished.markRead(chat.session?.id);
      const connected = chat.model !== undefined && !chat.model.demo && chat.model.available;
      void vscode.commands.executeCommand('setContext', 'pilotfish.modelConnected', connected);
      const model = chat.session?.model;
      if (model !== undefined && model !== chat.model?.current) void refreshModel();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      void connection.notify('pilotfish/trust/changed', { trusted: true });
      if (!connection.connected) reportRejection(server.start(), log, 'start');
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('pilotfish.server')) reportRejection(server.restart(), log, 'restart');
      if (event.affectsConfiguration('pilotfish.model') || event.affectsConfiguration('pilotfish.baseUrl'))
        void refreshModel();
    }),
  ];
}
