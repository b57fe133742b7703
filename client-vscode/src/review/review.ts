/**
 * The review of the agent's changes in the editor: marks pending hunks, and keeps or undoes them.
 *
 * The server computes the hunks from its ledger and the buffers. This class asks for them again whenever they may have
 * changed, draws them, and carries the user's decisions to the server.
 */

import * as vscode from 'vscode';
import type { Proposals } from '../approvals/proposals.ts';
import { messageOf } from '../errors.ts';
import type { ReviewFile, ReviewHunk, ReviewParams } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { codeHover, showInfo, showWarning } from '../widgets.ts';

/** How long changes are collected before the server is asked again, in ms. */
const REFRESH_MS = 150;
const REVIEW_UPDATES = new Set(['file_changed', 'review_changed', 'turn_ended']);

export type Decision = 'keep' | 'undo';

export class Review implements vscode.Disposable {
  files: readonly ReviewFile[] = [];
  private timer: NodeJS.Timeout | undefined;
  private asked = 0;
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  private readonly changedLines = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor('diffEditor.insertedLineBackground'),
    borderColor: new vscode.ThemeColor('editorGutter.modifiedBackground'),
    borderStyle: 'solid',
    borderWidth: '0 0 0 3px',
    overviewRulerColor: new vscode.ThemeColor('editorGutter.modifiedBackground'),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
  });
  /** the line above which lines were removed */
  private readonly removedLines = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    borderColor: new vscode.ThemeColor('editorGutter.deletedBackground'),
    borderStyle: 'solid',
    borderWidth: '2px 0 0 0',
    overviewRulerColor: new vscode.ThemeColor('editorGutter.deletedBackground'),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
  });
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly connection: Connection,
    private readonly proposals: Proposals,
    private readonly log: vscode.LogOutputChannel,
  ) {
    connection.on('pilotfish/session/update', ({ update }) => {
      if (REVIEW_UPDATES.has(update.kind)) this.refreshSoon();
    });
    this.subscriptions = [
      this.changed,
      this.changedLines,
      this.removedLines,
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (this.filesOf(document.uri).length > 0) this.refreshSoon();
      }),
      vscode.window.onDidChangeVisibleTextEditors(() => this.draw()),
    ];
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** Asks the server again when nothing has changed for a moment. */
  refreshSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.refresh().catch((error) => this.log.warn(`review: ${messageOf(error)}`));
    }, REFRESH_MS);
  }

  async refresh(): Promise<void> {
    if (!this.connection.connected) return this.show([]);
    this.asked += 1;
    const { asked } = this;
    const { files } = await this.connection.request('pilotfish/review/list', {});
    if (asked === this.asked) this.show(files);
  }

  /** The files with pending changes of a session. */
  ofSession(sessionId: string | undefined): readonly ReviewFile[] {
    return this.files.filter((file) => file.sessionId === sessionId);
  }

  /** Keeps or undoes hunks, a file, or everything in a session, and reports what the server refused. */
  async decide(decision: Decision, params: ReviewParams): Promise<void> {
    const { refused } = await this.connection.request(`pilotfish/review/${decision}`, params);
    if (refused.length > 0) {
      const lines = refused.map(({ uri, reason }) => `${nameOf(uri)}: ${reason}`);
      void showWarning(vscode.l10n.t('Not undone: {0}', lines.join('; ')));
    }
    await this.refresh();
  }

  /** Keeps or undoes the hunk at the cursor. */
  async decideAtCursor(decision: Decision): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (!editor) return;
    await this.refresh();
    for (const file of this.filesOf(editor.document.uri)) {
      const hunk = file.hunks.find((one) => touches(one, editor.selection));
      if (!hunk) continue;
      const { sessionId, uri } = file;
      const whole = file.change === 'created';
      return this.decide(decision, whole ? { sessionId, uri } : { sessionId, uri, hunkIds: [hunk.id] });
    }
    void showInfo(vscode.l10n.t('There is no pending change of Pilotfish at the cursor.'));
  }

  /** Keeps or undoes all changes of the session. */
  async decideAll(decision: Decision, sessionId: string | undefined): Promise<void> {
    if (sessionId !== undefined && this.ofSession(sessionId).length > 0) await this.decide(decision, { sessionId });
  }

  /** Shows the next or the previous hunk after the cursor, in this file or in another one. */
  async goTo(direction: 1 | -1): Promise<void> {
    await this.refresh();
    const places = this.files
      .filter((file) => file.change !== 'deleted')
      .flatMap((file) => file.hunks.map((hunk) => ({ uri: file.uri, line: hunk.range.start.line })));
    const editor = vscode.window.activeTextEditor;
    const target = nextPlace(places, editor?.document.uri.toString(), editor?.selection.active.line ?? -1, direction);
    if (!target) return void showInfo(vscode.l10n.t('There are no pending changes of Pilotfish.'));
    const at = new vscode.Position(target.line, 0);
    await vscode.window.showTextDocument(vscode.Uri.parse(target.uri), { selection: new vscode.Range(at, at) });
  }

  /** Opens the diff between a file without and with its pending changes. */
  async openDiff(sessionId: string, uri: string): Promise<void> {
    const { files } = await this.connection.request('pilotfish/review/list', { sessionId, uri });
    const [file] = files;
    if (!file) return;
    const target = vscode.Uri.parse(uri);
    const title = vscode.l10n.t('{0}: pending changes', vscode.workspace.asRelativePath(target));
    await this.proposals.showDiff(file.before ?? '', file.change === 'deleted' ? '' : target, target, title);
  }

  /** Runs the command of one of the server's code lenses. */
  async runLens(command: string, params: ReviewParams): Promise<void> {
    if (command === 'pilotfish.review.next') return this.goTo(1);
    return this.decide(command === 'pilotfish.review.keep' ? 'keep' : 'undo', params);
  }

  private show(files: readonly ReviewFile[]): void {
    this.files = files;
    void vscode.commands.executeCommand('setContext', 'pilotfish.pendingChanges', files.length > 0);
    this.draw();
    this.changed.fire();
  }

  private draw(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const hunks = this.filesOf(editor.document.uri).flatMap((file) => file.hunks);
      const [changed, removed] = [hunks.filter(({ after }) => after !== ''), hunks.filter(({ after }) => after === '')];
      editor.setDecorations(
        this.changedLines,
        changed.map((hunk) => ({ range: rangeToMark(hunk), ...hover(hunk) })),
      );
      editor.setDecorations(
        this.removedLines,
        removed.map((hunk) => ({ range: rangeToMark(hunk), ...hover(hunk) })),
      );
    }
  }

  private filesOf(uri: vscode.Uri): readonly ReviewFile[] {
    return this.files.filter((file) => vscode.Uri.parse(file.uri).toString() === uri.toString());
  }
}

export interface Place {
  uri: string;
  line: number;
}

/** The place after (or before) a line of a document, going on in the other documents and then from the other end. */
export function nextPlace(
  places: readonly Place[],
  uri: string | undefined,
  line: number,
  direction: 1 | -1,
): Place | undefined {
  const ordered = direction === 1 ? places : places.toReversed();
  const isBeyond = (place: Place) => (direction === 1 ? place.line > line : place.line < line);
  const here = ordered.findIndex((place) => place.uri === uri && isBeyond(place));
  if (here >= 0) return ordered[here];
  const last = ordered.findLastIndex((place) => place.uri === uri);
  return ordered[(last + 1) % Math.max(1, ordered.length)];
}

/** The first and the last line of a hunk; for removed lines the line below them. */
export function linesOf({ range, after }: ReviewHunk): readonly [first: number, last: number] {
  const last = after === '' ? range.start.line : range.end.character === 0 ? range.end.line - 1 : range.end.line;
  return [range.start.line, last];
}

function rangeToMark(hunk: ReviewHunk): vscode.Range {
  const [first, last] = linesOf(hunk);
  return new vscode.Range(first, 0, last, 0);
}

function touches(hunk: ReviewHunk, selection: vscode.Selection): boolean {
  const [first, last] = linesOf(hunk);
  return first <= selection.end.line && selection.start.line <= last;
}

/** Shows the text that the hunk replaced. */
function hover({ before }: ReviewHunk): { hoverMessage?: vscode.MarkdownString } {
  return before === '' ? {} : { hoverMessage: codeHover(vscode.l10n.t('Before this change of Pilotfish:'), before) };
}

function nameOf(uri: string): string {
  return vscode.workspace.asRelativePath(vscode.Uri.parse(uri));
}
