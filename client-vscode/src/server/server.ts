/** The lifecycle of the server process: finds or installs the server, starts it, restarts it after crashes, reports its state. */

import * as vscode from 'vscode';
import {
  CloseAction,
  type CloseHandlerResult,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  type ServerOptions,
  State,
} from 'vscode-languageclient/node';
import type { ServerState } from '../../webview/messages.ts';
import { messageOf, reportRejection } from '../errors.ts';
import { type Hello, type HelloResult, PROTOCOL_VERSION } from '../protocol.gen.ts';
import type { Connection, Transport } from './connection.ts';
import { type FoundServer, findServer } from './findServer.ts';
import { bundledWheel, InstallFailed, install, installedServer } from './installServer.ts';
import { RestartBackoff } from './restartBackoff.ts';
import { serverSettings } from './settings.ts';

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private readonly backoff = new RestartBackoff();
  private starting: Promise<void> | undefined;
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
    /** whether the chat, which shows the server's state, is visible */
    private readonly isChatVisible: () => boolean,
  ) {}

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

  /** Installs the bundled server in its own Python environment, shows progress, and starts it. */
  async install(): Promise<void> {
    const wheel = await bundledWheel(this.context.extensionPath);
    if (wheel === undefined) {
      this.setState({
        status: 'missing',
        reason: vscode.l10n.t('This build of the extension does not include a server. Set pilotfish.server.command.'),
        canInstall: false,
      });
      return;
    }
    const options = { location: vscode.ProgressLocation.Notification, title: 'Pilotfish', cancellable: true };
    await vscode.window.withProgress(options, async (progress, token) => {
      const step = (message: string) => {
        progress.report({ message });
        this.setState({ status: 'installing', step: message });
      };
      try {
        await install(wheel, this.context.globalStorageUri.fsPath, step, this.log, token);
      } catch (error) {
        if (!(error instanceof InstallFailed)) throw error;
        this.setState({ status: 'missing', reason: error.message, canInstall: true });
        if (!this.isChatVisible()) void this.showError(error.message);
      }
    });
    if (this.state.status === 'installing') await this.start();
  }

  dispose(): void {
    void this.stop();
    this.changed.dispose();
    this.crashed.dispose();
  }

  private async startOnce(): Promise<void> {
    if (this.client) return;
    this.setState({ status: 'starting' });
    const wanted: string = this.context.extension.packageJSON.version;
    const own = installedServer(this.context.globalStorageUri.fsPath);
    const { found, rejected } = await findServer(own, wanted, this.log);
    if (!found) {
      reportRejection(this.handleMissing(rejected), this.log);
      return;
    }
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
      options: { env: { ...process.env, ...environment } },
    };
    // Evaluated at every start, including automatic restarts: trust or settings may have changed since the last start.
    const hello = (): Hello => ({
      protocolVersion: PROTOCOL_VERSION,
      client: {
        approvals: true,
        ask: true,
        save: true,
        diagnostics: true,
        codeActions: true,
        symbols: true,
        diff: true,
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
    return new LanguageClient('pilotfish', 'Pilotfish', serverOptions, options);
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

  private async handleMissing(rejected: readonly string[]): Promise<void> {
    const canInstall = (await bundledWheel(this.context.extensionPath)) !== undefined;
    const reason = [vscode.l10n.t('No Pilotfish server found.'), ...rejected].join(' ');
    this.setState({ status: 'missing', reason, canInstall });
    if (!canInstall || this.context.globalState.get(INSTALL_OFFERED)) return;
    await this.context.globalState.update(INSTALL_OFFERED, true);
    const yes = vscode.l10n.t('Install');
    const question = vscode.l10n.t('Pilotfish needs its server. Install it in a separate Python environment?');
    if ((await vscode.window.showInformationMessage(question, yes)) === yes) await this.install();
  }

  private async showError(message: string): Promise<void> {
    const show = vscode.l10n.t('Show Log');
    if ((await vscode.window.showErrorMessage(message, show)) === show) this.log.show();
  }

  private setState(state: ServerState): void {
    this.state = state;
    this.changed.fire(state);
  }
}

const INSTALL_OFFERED = 'pilotfish.askedToInstall';

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
