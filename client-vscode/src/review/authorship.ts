/** Shows on demand which turn wrote which lines of a file: behind the lines, with a link to the session. */

import * as vscode from 'vscode';
import { messageOf } from '../errors.ts';
import type { BlamedLines } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { linkHover, plain, showInfo } from '../widgets.ts';

/** How long changes of a document are collected before the server is asked again, in ms. */
const REFRESH_MS = 300;

export class Authorship implements vscode.Disposable {
  /** the documents whose authors are shown */
  private readonly shown = new Map<string, readonly BlamedLines[]>();
  private timer: NodeJS.Timeout | undefined;
  private readonly author = vscode.window.createTextEditorDecorationType({
    after: { color: new vscode.ThemeColor('editorCodeLens.foreground'), margin: '0 0 0 3em', fontStyle: 'italic' },
  });
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly connection: Connection,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.subscriptions = [
      this.author,
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (this.shown.has(document.uri.toString())) this.refreshSoon(document.uri);
      }),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.shown.delete(uri.toString())),
      vscode.window.onDidChangeVisibleTextEditors(() => this.draw()),
    ];
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** Shows the authors of the active file's lines, or hides them. */
  async toggle(): Promise<void> {
    const uri = vscode.window.activeTextEditor?.document.uri;
    if (!uri) return;
    if (!this.shown.delete(uri.toString())) {
      const lines = await this.ask(uri);
      if (lines.length === 0) return void showInfo(vscode.l10n.t('No line of this file was written by Pilotfish.'));
      this.shown.set(uri.toString(), lines);
    }
    this.draw();
  }

  private refreshSoon(uri: vscode.Uri): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.ask(uri).then(
        (lines) => {
          if (!this.shown.has(uri.toString())) return;
          this.shown.set(uri.toString(), lines);
          this.draw();
        },
        (error) => this.log.warn(`authors: ${messageOf(error)}`),
      );
    }, REFRESH_MS);
  }

  private async ask(uri: vscode.Uri): Promise<readonly BlamedLines[]> {
    return (await this.connection.request('pilotfish/review/blame', { uri: uri.toString() })).lines;
  }

  private draw(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const lines = this.shown.get(editor.document.uri.toString()) ?? [];
      editor.setDecorations(
        this.author,
        lines.map((part) => decoration(part, editor.document)),
      );
    }
  }
}

function decoration({ range, promptTitle, sessionId }: BlamedLines, document: vscode.TextDocument) {
  const first = Math.min(range.start.line, document.lineCount - 1);
  // A range ends before the first character of the line below it.
  const last = Math.min(Math.max(first, range.end.line - 1), document.lineCount - 1);
  const count = last - first + 1;
  const words =
    count === 1
      ? vscode.l10n.t('Pilotfish: {0}', promptTitle)
      : vscode.l10n.t('Pilotfish, {0} lines: {1}', count, promptTitle);
  const hoverMessage = linkHover(
    vscode.l10n.t('Written by Pilotfish: {0}', promptTitle),
    vscode.l10n.t('Open the session'),
    'pilotfish.sessions.open',
    { id: sessionId },
  );
  const end = document.lineAt(first).range.end;
  return { range: new vscode.Range(end, end), hoverMessage, renderOptions: { after: { contentText: plain(words) } } };
}
