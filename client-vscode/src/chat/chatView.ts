/** The webview view of the chat: loads its page, validates its messages, and sends it messages in order. */

import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import type { FromView, ToView } from '../../webview/messages.ts';
import type { UpdateParams } from '../protocol.gen.ts';
import { describeView, viewBadge } from '../widgets.ts';
import { parseViewMessage } from './viewMessages.ts';

export const CHAT_VIEWS = ['pilotfish.chat', 'pilotfish.chatPrimary'] as const;

/** Minimum time between two batches of updates, in ms. The first update after a pause is sent at once. */
const BATCH_MS = 50;

export class ChatView implements vscode.WebviewViewProvider, vscode.Disposable {
  private view: vscode.WebviewView | undefined;
  private ready = false;
  private deferred: ToView[] = [];
  private counts: [waiting: number, finished: number] = [0, 0];
  private sessionTitle = '';
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
    this.setBadge(...this.counts);
    this.setSessionTitle(this.sessionTitle);
  }

  /** Shows the view. Pass `focus` only when the user asked for the chat. */
  async reveal(focus: boolean): Promise<void> {
    const id = this.view?.viewType ?? (hasSecondarySideBar() ? CHAT_VIEWS[0] : CHAT_VIEWS[1]);
    if (focus || !this.view) await vscode.commands.executeCommand(`${id}.focus`, { preserveFocus: !focus });
    else this.view.show(true);
  }

  /** Sends a message if the page is ready. A page that becomes ready later receives the whole state anyway. */
  post(message: ToView): void {
    if (this.ready) void this.view?.webview.postMessage(message);
  }

  /** Sends a session update, together with others if the last batch is less than `BATCH_MS` ago. */
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

  /** Names the session in the header of the view. */
  setSessionTitle(title: string): void {
    this.sessionTitle = title;
    if (this.view) describeView(this.view, title);
  }

  /** Shows how many questions wait, and how many sessions have results that the user has not seen. */
  setBadge(waiting: number, finished: number): void {
    this.counts = [waiting, finished];
    if (!this.view) return;
    this.view.badge = waiting + finished > 0 ? viewBadge(waiting, finished) : undefined;
  }

  dispose(): void {
    this.updates.dispose();
    this.received.dispose();
    this.hidden.dispose();
  }
}

/** Extensions can add views to the secondary side bar since VS Code 1.106. Older versions use the activity bar. */
export function hasSecondarySideBar(): boolean {
  const [major = 0, minor = 0] = vscode.version.split('.').map(Number);
  return major > 1 || minor >= 106;
}

/** Collects session updates and posts them as one message. */
export class UpdateBatch {
  private updates: UpdateParams[] = [];
  private timer: NodeJS.Timeout | undefined;
  private lastFlush = 0;

  constructor(private readonly post: (message: ToView) => void) {}

  push(update: UpdateParams): void {
    this.updates.push(update);
    const wait = this.lastFlush + BATCH_MS - Date.now();
    if (wait <= 0) this.flush();
    else this.timer ??= setTimeout(() => this.flush(), wait);
  }

  flush(): void {
    this.dispose();
    this.lastFlush = Date.now();
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
<script type="module" nonce="${nonce}" src="${uriOf('webview.js')}"></script>
</body>
</html>`;
}
