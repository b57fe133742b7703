/** The webview view of the chat: loads its page, validates its messages, and sends it messages in order. */

import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import type { FromView, ToView } from '../../webview/messages.ts';
import type { UpdateParams } from '../protocol.gen.ts';
import { parseViewMessage } from './viewMessages.ts';

export const CHAT_VIEWS = ['pilotfish.chat', 'pilotfish.chatPrimary'] as const;

/** How long the first update of a batch waits for more updates, in ms. */
const BATCH_MS = 50;

export class ChatView implements vscode.WebviewViewProvider, vscode.Disposable {
  private view: vscode.WebviewView | undefined;
  private ready = false;
  private deferred: ToView[] = [];
  private badge = 0;
  private readonly updates = new UpdateBatch((message) => this.post(message));
  private readonly received = new vscode.EventEmitter<FromView>();
  private readonly hidden = new vscode.EventEmitter<void>();
  readonly onDidReceive = this.received.event;
  /** the view was hidden or closed */
  readonly onDidHide = this.hidden.event;

  constructor(
    private readonly extension: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  get isVisible(): boolean {
    return this.view?.visible ?? false;
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.ready = false;
    const dist = vscode.Uri.joinPath(this.extension.extensionUri, 'dist');
    view.webview.options = { enableScripts: true, localResourceRoots: [dist] };
    view.webview.html = page(view.webview, dist);
    view.webview.onDidReceiveMessage((value: unknown) => {
      const message = parseViewMessage(value);
      if (!message) {
        this.log.warn(`ignored an invalid message from the chat view: ${JSON.stringify(value).slice(0, 200)}`);
        return;
      }
      if (message.type === 'ready') this.ready = true;
      this.received.fire(message);
    });
    view.onDidChangeVisibility(() => {
      if (view.visible) return;
      // VS Code destroys a hidden page. The next page reports 'ready' when it can receive messages.
      this.ready = false;
      this.hidden.fire();
    });
    view.onDidDispose(() => {
      if (this.view !== view) return;
      this.view = undefined;
      this.ready = false;
      this.hidden.fire();
    });
    this.setBadge(this.badge);
  }

  /** Shows the view. Pass `focus` only when the user asked for the chat. */
  async reveal(focus: boolean): Promise<void> {
    const id = this.view?.viewType ?? CHAT_VIEWS[0];
    if (focus || !this.view) await vscode.commands.executeCommand(`${id}.focus`);
    else this.view.show(true);
  }

  /** Sends a message if the page is ready. A page that becomes ready later receives the whole state anyway. */
  post(message: ToView): void {
    if (this.ready) void this.view?.webview.postMessage(message);
  }

  /** Sends a session update together with others that arrive within `BATCH_MS`: the page paints once per frame. */
  postUpdate(update: UpdateParams): void {
    this.updates.push(update);
  }

  /** Sends batched updates now. Call it before a message that depends on them. */
  flushUpdates(): void {
    this.updates.flush();
  }

  /** Reveals the view and sends the message, after the initial state if the page is not ready yet. */
  async revealAndPost(message: ToView): Promise<void> {
    await this.reveal(true);
    if (this.ready) this.post(message);
    else this.deferred.push(message);
  }

  /** Sends the messages that waited for the initial state. */
  postDeferred(): void {
    for (const message of this.deferred.splice(0)) this.post(message);
  }

  setBadge(waiting: number): void {
    this.badge = waiting;
    if (!this.view) return;
    const tooltip =
      waiting === 1 ? vscode.l10n.t('1 question waiting') : vscode.l10n.t('{0} questions waiting', waiting);
    this.view.badge = waiting > 0 ? { value: waiting, tooltip } : undefined;
  }

  dispose(): void {
    this.updates.dispose();
    this.received.dispose();
    this.hidden.dispose();
  }
}

/** Collects session updates and posts them as one message. */
export class UpdateBatch {
  private updates: UpdateParams[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly post: (message: ToView) => void) {}

  push(update: UpdateParams): void {
    this.updates.push(update);
    this.timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  flush(): void {
    this.dispose();
    const updates = this.updates;
    this.updates = [];
    if (updates.length > 0) this.post({ type: 'updates', updates, at: Date.now() });
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/** The l10n bundle of the user's language, for the page. */
export function translations(): Record<string, string> {
  const bundle = vscode.l10n.bundle ?? {};
  return Object.fromEntries(
    Object.entries(bundle).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

function page(webview: vscode.Webview, dist: vscode.Uri): string {
  const nonce = randomBytes(16).toString('base64url');
  const uriOf = (name: string) => webview.asWebviewUri(vscode.Uri.joinPath(dist, name));
  const { cspSource } = webview;
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src ${cspSource}`,
    `font-src ${cspSource}`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `<!DOCTYPE html>
<html lang="${vscode.env.language}">
<head>
<meta charset="UTF-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${uriOf('style.css')}">
<title>Pilotfish</title>
</head>
<body>
<div id="root"></div>
<script nonce="${nonce}" src="${uriOf('webview.js')}"></script>
</body>
</html>`;
}
