/** The chat's webview: its page, whether anyone can see it, and the line to it. */

import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import type { FromView, ToView } from '../../webview/messages.ts';
import { fromPage } from './viewMessages.ts';

export const CHAT_VIEWS = ['pilotfish.chat', 'pilotfish.chatPrimary'] as const;

export class View implements vscode.WebviewViewProvider, vscode.Disposable {
  private view: vscode.WebviewView | undefined;
  private ready = false;
  private later: ToView[] = [];
  private waiting = 0;
  private readonly heard = new vscode.EventEmitter<FromView>();
  private readonly hidden = new vscode.EventEmitter<void>();
  readonly onDidReceive = this.heard.event;
  /** nobody can see it any more */
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
    view.webview.onDidReceiveMessage((said: unknown) => {
      const message = fromPage(said);
      if (!message) {
        this.log.warn(`the chat's page said something unknown: ${JSON.stringify(said).slice(0, 200)}`);
        return;
      }
      if (message.type === 'ready') this.ready = true;
      this.heard.fire(message);
    });
    view.onDidChangeVisibility(() => {
      if (view.visible) return;
      // A hidden page is gone: what is told from now on waits until the next one is there.
      this.ready = false;
      this.hidden.fire();
    });
    view.onDidDispose(() => {
      if (this.view !== view) return;
      this.view = undefined;
      this.ready = false;
      this.hidden.fire();
    });
    this.setBadge(this.waiting);
  }

  /** Bring the view up; with the focus only because the user asked for the chat. */
  async reveal(focus: boolean): Promise<void> {
    const id = this.view?.viewType ?? CHAT_VIEWS[0];
    if (focus || !this.view) await vscode.commands.executeCommand(`${id}.focus`);
    else this.view.show(true);
  }

  /** To the view if it is there; it is told everything when it comes. */
  post(message: ToView): void {
    if (this.ready) void this.view?.webview.postMessage(message);
  }

  /** To the view, now or when it is there and has been told everything else. */
  async tell(message: ToView): Promise<void> {
    await this.reveal(true);
    if (this.ready) this.post(message);
    else this.later.push(message);
  }

  /** What had to wait until the view was there. */
  deliver(): void {
    for (const message of this.later.splice(0)) this.post(message);
  }

  setBadge(waiting: number): void {
    this.waiting = waiting;
    if (!this.view) return;
    const tooltip =
      waiting === 1 ? vscode.l10n.t('1 question waiting') : vscode.l10n.t('{0} questions waiting', waiting);
    this.view.badge = waiting > 0 ? { value: waiting, tooltip } : undefined;
  }

  dispose(): void {
    this.heard.dispose();
    this.hidden.dispose();
  }
}

/** The view's words in the user's language. */
export function words(): Record<string, string> {
  const bundle = vscode.l10n.bundle ?? {};
  return Object.fromEntries(
    Object.entries(bundle).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

function page(webview: vscode.Webview, dist: vscode.Uri): string {
  const nonce = randomBytes(16).toString('base64url');
  const at = (name: string) => webview.asWebviewUri(vscode.Uri.joinPath(dist, name));
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
<link rel="stylesheet" href="${at('style.css')}">
<title>Pilotfish</title>
</head>
<body>
<div id="root"></div>
<script nonce="${nonce}" src="${at('webview.js')}"></script>
</body>
</html>`;
}
