/** The lifecycle of the server process: finds or installs the server, starts it, restarts it after crashes, reports its state. */

import { mkdir } from 'node:fs/promises';
import * as vscode from 'vscode';
import {
  CloseAction,
  type CloseHandlerResult,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  type MessageActionItem,
  MessageType,
  type ServerOptions,
  ShowMessageNotification,
  ShowMessageRequest,
  type ShowMessageRequestParams,
  State,
  WorkDoneProgress,
} from 'vscode-languageclient/node';
import type { ServerState } from '../../webview/messages.ts';
import { messageOf } from '../errors.ts';
import { type Hello, type HelloResult, PROTOCOL_VERSION } from '../protocol.gen.ts';
import { showError, showInfo, showWarning } from '../widgets.ts';
import { type Connection, NotConnected, type Transport } from './connection.ts';
import { type FoundServer, findServer } from './findServer.ts';
import { findBundle, InstallFailed, install, installedServer, installLocal, type Report } from './installServer.ts';
import type { Surroundings } from './programs.ts';
import { RestartBackoff } from './restartBackoff.ts';
import { serverSettings } from './settings.ts';

/** Global state: whether the user wants models on this machine. */
const LOCAL = 'pilotfish.localModels';

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private readonly backoff = new RestartBackoff();
  private starting: Promise<void> | undefined;
  private installing: { done: Promise<void>; cancel: vscode.CancellationTokenSource } | undefined;
  /** the server that was started last */
  private found: FoundServer | undefined;
  /** ends the wait before a restart */
  private skipWait: (() => void) | undefined;
  private stopping = false;
  private readonly changed = new vscode.EventEmitter<ServerState>();
  private readonly crashed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  /** the server process ended unexpectedly */
  readonly onDidCrash = this.crashed.event;
  state: ServerState = { status: 'starting' };

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly connection: Connection,
    private readonly log: vscode.LogOutputChannel,
    private readonly middleware: NonNullable<LanguageClientOptions['middleware']>,
  ) {
    connection.connect = () => this.ensure();
  }

  /** For conversions between VS Code and LSP types. */
  get languageClient(): LanguageClient | undefined {
    return this.client;
  }

  start(): Promise<void> {
    this.starting ??= this.startOnce().finally(() => {
      this.starting = undefined;
    });
    return this.starting;
  }

  async restart(): Promise<void> {
    this.backoff.reset();
    if (this.state.status === 'restarting' && this.skipWait) {
      this.skipWait();
      return;
    }
    await this.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.connection.detach();
    if (!client) return;
    this.stopping = true;
    try {
      await client.stop(3000);
    } catch (error) {
      this.log.warn(`stopping the server: ${String(error)}`);
    } finally {
      this.stopping = false;
    }
  }

  /** Waits until the server runs. Installs it first if it never was installed. Throws if it cannot run. */
  async ensure(): Promise<void> {
    if (this.state.status === 'absent' || (this.state.status === 'missing' && this.state.canInstall))
      await this.install();
    await this.settled();
    if (this.state.status === 'ready') return;
    throw this.state.status === 'missing' ? new Error(this.state.reason) : new NotConnected();
  }

  /** Installs the bundled server in its own Python environment, reports progress in the state, and starts it. */
  install(): Promise<void> {
    if (!this.installing) {
      const cancel = new vscode.CancellationTokenSource();
      const done = this.installOnce(cancel.token).finally(() => {
        this.installing = undefined;
        cancel.dispose();
      });
      this.installing = { done, cancel };
    }
    return this.installing.done;
  }

  /** Installs what runs models on this machine into the extension's own environment. Throws InstallFailed. */
  async installLocalModels(report: Report, token: vscode.CancellationToken): Promise<void> {
    const bundle = await findBundle(this.context.extensionPath);
    if (!bundle || this.found?.from !== 'own') {
      const reason = vscode.l10n.t(
        'The server is not the one of the extension. Install the package beside the server, and try again.',
      );
      throw new InstallFailed(reason, "pip install 'pilotfish[local]'");
    }
    await installLocal(bundle, await this.surroundings(), report, this.log, token);
    await this.context.globalState.update(LOCAL, true);
  }

  /** Reports the progress that the server sends for a token, until it is disposed. */
  onProgress(token: string, report: (message: string, percent: number) => void): vscode.Disposable {
    const listening = this.client?.onProgress(WorkDoneProgress.type, token, (progress) => {
      if (progress.kind === 'report') report(progress.message ?? '', progress.percentage ?? 0);
    });
    return listening ?? { dispose: () => {} };
  }

  cancelInstall(): void {
    this.installing?.cancel.cancel();
  }

  dispose(): void {
    void this.stop();
    this.changed.dispose();
    this.crashed.dispose();
  }

  private async startOnce(): Promise<void> {
    if (this.client) return;
    if (this.state.status !== 'installing') this.setState({ status: 'starting' });
    const wanted: string = this.context.extension.packageJSON.version;
    const surroundings = await this.surroundings();
    const bundle = await findBundle(this.context.extensionPath);
    const own = bundle && installedServer(surroundings.storage, bundle);
    const { found, rejected } = await findServer(own, wanted, surroundings, this.log);
    if (!found) {
      for (const reason of rejected) this.log.warn(reason);
      this.setState(missingState(bundle !== undefined, rejected));
      return;
    }
    this.found = found;
    this.log.info(`server ${found.version} (${found.from}): ${found.command.join(' ')}`);
    const client = this.makeClient(found);
    this.client = client;
    this.connection.attach(transportOf(client));
    client.onDidChangeState(({ newState }) => this.handleState(client, newState));
    try {
      await client.start();
      this.handleStarted(client, found);
    } catch (error) {
      if (this.client !== client) return;
      this.client = undefined;
      this.connection.detach();
      this.log.error(`start: ${String(error)}`);
      this.setState({ status: 'stopped', reason: vscode.l10n.t('The server did not start: {0}', messageOf(error)) });
    }
  }

  private makeClient(found: FoundServer): LanguageClient {
    const [command = 'pilotfish', ...args] = found.command;
    const environment = vscode.workspace
      .getConfiguration('pilotfish')
      .get<Record<string, string>>('server.environment', {});
    const serverOptions: ServerOptions = {
      command,
      args: args.includes('serve') ? [...args] : [...args, 'serve'],
      // Not the workspace: a program that runs there may load code from it.
      options: { env: { ...process.env, ...environment }, cwd: this.context.globalStorageUri.fsPath },
    };
    // Evaluated at every start, including automatic restarts: trust or settings may have changed since the last start.
    const hello = (): Hello => ({
      protocolVersion: PROTOCOL_VERSION,
      client: {
        approvals: true,
        approvalEffects: true,
        ask: true,
        save: true,
        diagnostics: true,
        codeActions: true,
        symbols: true,
        diff: true,
        context: true,
        terminal: true,
        inlineEdit: true,
        titles: true,
        mcp: true,
        sessionList: true,
        languageModels: true,
      },
      trusted: vscode.workspace.isTrusted,
      settings: serverSettings() as NonNullable<Hello['settings']>,
    });
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: 'file' }, { scheme: 'untitled' }],
      initializationOptions: () => ({ pilotfish: hello() }),
      outputChannel: this.log,
      middleware: this.middleware,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => this.handleClosed(),
      },
    };
    const client = new LanguageClient('pilotfish', 'Pilotfish', serverOptions, options);
    // In place of the language client's own handlers, which read links in the server's messages.
    client.onNotification(ShowMessageNotification.type, (message) => void showServerMessage(message));
    client.onRequest(ShowMessageRequest.type, (message) => showServerMessage(message));
    return client;
  }

  private handleStarted(client: LanguageClient, found: FoundServer | undefined): void {
    const hello = client.initializeResult?.capabilities.experimental?.pilotfish as HelloResult | undefined;
    if (!hello || hello.protocolVersion !== PROTOCOL_VERSION) {
      const reason = vscode.l10n.t(
        'The server uses protocol version {0}; this extension needs version {1}.',
        hello?.protocolVersion ?? '?',
        PROTOCOL_VERSION,
      );
      this.setState({ status: 'stopped', reason });
      void this.stop();
      return;
    }
    this.setState({ status: 'ready', version: hello.version || (found?.version ?? '') });
  }

  /** The language client restarts the server by itself after `handleClosed`; this detects that it is running again. */
  private handleState(client: LanguageClient, state: State): void {
    if (this.client !== client) return;
    if (state === State.Running && this.state.status === 'restarting') this.handleStarted(client, undefined);
  }

  private async handleClosed(): Promise<CloseHandlerResult> {
    if (this.stopping || !this.client) return { action: CloseAction.DoNotRestart, handled: true };
    this.crashed.fire();
    const wait = this.backoff.recordCrash(Date.now());
    this.log.error(`the server ended unexpectedly (${this.backoff.count} recent crashes)`);
    if (wait === undefined) {
      this.client = undefined;
      this.connection.detach();
      this.setState({
        status: 'stopped',
        reason: vscode.l10n.t('The server stopped {0} times in a row.', this.backoff.count),
      });
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.setState({ status: 'restarting', inMs: wait });
    await new Promise<void>((resolve) => {
      this.skipWait = resolve;
      setTimeout(resolve, wait);
    });
    this.skipWait = undefined;
    return { action: CloseAction.Restart, handled: true };
  }

  private async installOnce(token: vscode.CancellationToken): Promise<void> {
    const since = Date.now();
    const report = (percent: number, step: string) => this.setState({ status: 'installing', step, percent, since });
    const bundle = await findBundle(this.context.extensionPath);
    if (!bundle || !vscode.workspace.isTrusted) {
      this.setState(missingState(bundle !== undefined, []));
      return;
    }
    try {
      const surroundings = await this.surroundings();
      await install(bundle, surroundings, report, this.log, token);
      // An update of the extension has an environment of its own; a model on this machine works there too.
      if (this.context.globalState.get<boolean>(LOCAL))
        await installLocal(bundle, surroundings, report, this.log, token);
    } catch (error) {
      const command = error instanceof InstallFailed ? error.command : undefined;
      this.setState({
        status: 'missing',
        reason: messageOf(error),
        canInstall: true,
        ...(command !== undefined && { command }),
      });
      return;
    }
    this.log.info(`installed in ${Date.now() - since} ms`);
    report(90, vscode.l10n.t('Starting…'));
    await this.start();
    if (this.state.status === 'ready') this.log.info(`ready ${Date.now() - since} ms after the installation began`);
  }

  private async surroundings(): Promise<Surroundings> {
    const storage = this.context.globalStorageUri.fsPath;
    await mkdir(storage, { recursive: true });
    return { storage, folders: (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => uri.fsPath) };
  }

  /** Waits while the server is starting, restarting or being installed. */
  private async settled(): Promise<void> {
    const isSettled = () => !['starting', 'installing', 'restarting'].includes(this.state.status);
    if (isSettled()) return;
    await new Promise<void>((resolve) => {
      const subscription = this.onDidChange(() => {
        if (!isSettled()) return;
        subscription.dispose();
        resolve();
      });
    });
  }

  private setState(state: ServerState): void {
    this.state = state;
    this.changed.fire(state);
  }
}

async function showServerMessage({
  type,
  message,
  actions = [],
}: ShowMessageRequestParams): Promise<MessageActionItem | null> {
  const show = type === MessageType.Error ? showError : type === MessageType.Warning ? showWarning : showInfo;
  const pressed = await show(message, ...actions.map(({ title }) => title));
  return actions.find(({ title }) => title === pressed) ?? null;
}

/** No server was found: whether the first action of the user installs one, or why it cannot. */
function missingState(hasBundle: boolean, rejected: readonly string[]): ServerState {
  if (!hasBundle) {
    const reason = vscode.l10n.t(
      'This build of the extension does not include a server. Set pilotfish.server.command.',
    );
    return { status: 'missing', reason: [reason, ...rejected].join(' '), canInstall: false };
  }
  if (!vscode.workspace.isTrusted) {
    const reason = vscode.l10n.t('Pilotfish installs its server when you have trusted a folder.');
    return { status: 'missing', reason, canInstall: false };
  }
  return { status: 'absent', notes: rejected };
}

function transportOf(client: LanguageClient): Transport {
  return {
    // The language client would send an undefined third argument as a second parameter.
    sendRequest: (method, params, token) =>
      token ? client.sendRequest(method, params, token) : client.sendRequest(method, params),
    sendNotification: (method, params) => client.sendNotification(method, params),
    onRequest: (method, handler) => client.onRequest(method, (params, token) => handler(params as never, token)),
    onNotification: (method, handler) => client.onNotification(method, (params) => handler(params as never)),
  };
}
