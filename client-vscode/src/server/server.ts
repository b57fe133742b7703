/** The server's life: find or install it, start it, start it again when it falls, and say honestly how it is. */

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
import { messageOf, watched } from '../errors.ts';
import { type Hello, type HelloResult, PROTOCOL_VERSION } from '../protocol.gen.ts';
import type { Connection, Transport } from './connection.ts';
import { type Found, findServer } from './findServer.ts';
import { bundledWheel, InstallFailed, install, ownServer } from './installServer.ts';
import { BackOff } from './restartBackoff.ts';
import { wireSettings } from './settings.ts';

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private readonly backOff = new BackOff();
  private starting: Promise<void> | undefined;
  private hurry: (() => void) | undefined;
  private stopping = false;
  private readonly changed = new vscode.EventEmitter<ServerState>();
  private readonly fell = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  /** the server ended by itself while it was needed */
  readonly onDidCrash = this.fell.event;
  state: ServerState = { status: 'starting' };

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly connection: Connection,
    private readonly log: vscode.LogOutputChannel,
    private readonly middleware: NonNullable<LanguageClientOptions['middleware']>,
    /** whether the chat, which says how the server is, can be seen */
    private readonly isSaid: () => boolean,
  ) {}

  /** For conversions between VS Code's shapes and LSP's. */
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
    this.backOff.forgive();
    if (this.state.status === 'restarting' && this.hurry) {
      this.hurry();
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
      this.log.warn(`stopping: ${String(error)}`);
    } finally {
      this.stopping = false;
    }
  }

  /** Into an environment of our own, with progress; then start. */
  async install(): Promise<void> {
    const wheel = await bundledWheel(this.context.extensionPath);
    if (wheel === undefined) {
      this.become({
        status: 'missing',
        reason: vscode.l10n.t('This build of the extension carries no server. Set pilotfish.server.command.'),
        canInstall: false,
      });
      return;
    }
    const options = { location: vscode.ProgressLocation.Notification, title: 'Pilotfish', cancellable: true };
    await vscode.window.withProgress(options, async (progress, token) => {
      const step = (words: string) => {
        progress.report({ message: words });
        this.become({ status: 'installing', step: words });
      };
      try {
        await install(wheel, this.context.globalStorageUri.fsPath, step, this.log, token);
      } catch (error) {
        if (!(error instanceof InstallFailed)) throw error;
        this.become({ status: 'missing', reason: error.message, canInstall: true });
        if (!this.isSaid()) void this.offerLog(error.message);
      }
    });
    if (this.state.status === 'installing') await this.start();
  }

  dispose(): void {
    void this.stop();
    this.changed.dispose();
    this.fell.dispose();
  }

  private async startOnce(): Promise<void> {
    if (this.client) return;
    this.become({ status: 'starting' });
    const wanted: string = this.context.extension.packageJSON.version;
    const own = ownServer(this.context.globalStorageUri.fsPath);
    const { found, passedOver } = await findServer(own, wanted, this.log);
    if (!found) {
      watched(this.missing(passedOver), this.log);
      return;
    }
    this.log.info(`server ${found.version} (${found.from}): ${found.command.join(' ')}`);
    const client = this.makeClient(found);
    this.client = client;
    this.connection.attach(transportOf(client));
    client.onDidChangeState(({ newState }) => this.followed(client, newState));
    try {
      await client.start();
      this.ready(client, found);
    } catch (error) {
      if (this.client !== client) return;
      this.client = undefined;
      this.connection.detach();
      this.log.error(`start: ${String(error)}`);
      this.become({ status: 'stopped', reason: vscode.l10n.t('The server did not start: {0}', messageOf(error)) });
    }
  }

  private makeClient(found: Found): LanguageClient {
    const [command = 'pilotfish', ...args] = found.command;
    const set = vscode.workspace.getConfiguration('pilotfish').get<Record<string, string>>('server.environment', {});
    const serverOptions: ServerOptions = {
      command,
      args: args.includes('serve') ? [...args] : [...args, 'serve'],
      options: { env: { ...process.env, ...set } },
    };
    // Asked at every start, also when the client starts the server again by itself: trust may have been given since.
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
      settings: wireSettings() as NonNullable<Hello['settings']>,
    });
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: 'file' }, { scheme: 'untitled' }],
      initializationOptions: () => ({ pilotfish: hello() }),
      outputChannel: this.log,
      middleware: this.middleware,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => this.closed(),
      },
    };
    return new LanguageClient('pilotfish', 'Pilotfish', serverOptions, options);
  }

  private ready(client: LanguageClient, found: Found | undefined): void {
    const hello = client.initializeResult?.capabilities.experimental?.pilotfish as HelloResult | undefined;
    if (!hello || hello.protocolVersion !== PROTOCOL_VERSION) {
      const reason = vscode.l10n.t(
        'The server speaks another protocol ({0}); this extension needs {1}.',
        hello?.protocolVersion ?? '?',
        PROTOCOL_VERSION,
      );
      this.become({ status: 'stopped', reason });
      void this.stop();
      return;
    }
    this.become({ status: 'ready', version: hello.version || (found?.version ?? '') });
  }

  /** The client starts again by itself after `closed`; this is how we hear of it. */
  private followed(client: LanguageClient, state: State): void {
    if (this.client !== client) return;
    if (state === State.Running && this.state.status === 'restarting') this.ready(client, undefined);
  }

  private async closed(): Promise<CloseHandlerResult> {
    if (this.stopping || !this.client) return { action: CloseAction.DoNotRestart, handled: true };
    this.fell.fire();
    const wait = this.backOff.fell(Date.now());
    this.log.error(`the server ended by itself, ${this.backOff.count} times lately`);
    if (wait === undefined) {
      this.client = undefined;
      this.connection.detach();
      this.become({
        status: 'stopped',
        reason: vscode.l10n.t('The server stopped {0} times in a row.', this.backOff.count),
      });
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.become({ status: 'restarting', inMs: wait });
    await new Promise<void>((resolve) => {
      this.hurry = resolve;
      setTimeout(resolve, wait);
    });
    this.hurry = undefined;
    return { action: CloseAction.Restart, handled: true };
  }

  private async missing(passedOver: readonly string[]): Promise<void> {
    const canInstall = (await bundledWheel(this.context.extensionPath)) !== undefined;
    const reason = [vscode.l10n.t('No Pilotfish server found.'), ...passedOver].join(' ');
    this.become({ status: 'missing', reason, canInstall });
    if (!canInstall || this.context.globalState.get(ASKED)) return;
    await this.context.globalState.update(ASKED, true);
    const yes = vscode.l10n.t('Install');
    const question = vscode.l10n.t('Pilotfish needs its server. Install it into a Python environment of its own?');
    if ((await vscode.window.showInformationMessage(question, yes)) === yes) await this.install();
  }

  private async offerLog(message: string): Promise<void> {
    const show = vscode.l10n.t('Show Log');
    if ((await vscode.window.showErrorMessage(message, show)) === show) this.log.show();
  }

  private become(state: ServerState): void {
    this.state = state;
    this.changed.fire(state);
  }
}

const ASKED = 'pilotfish.askedToInstall';

function transportOf(client: LanguageClient): Transport {
  return {
    // A third argument that is undefined would be taken for a second parameter.
    sendRequest: (method, params, token) =>
      token ? client.sendRequest(method, params, token) : client.sendRequest(method, params),
    sendNotification: (method, params) => client.sendNotification(method, params),
    onRequest: (method, handler) => client.onRequest(method, (params, token) => handler(params as never, token)),
    onNotification: (method, handler) => client.onNotification(method, (params) => handler(params as never)),
  };
}
