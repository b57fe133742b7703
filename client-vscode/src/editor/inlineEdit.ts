/**
 * Inline edits: asks for an instruction at the cursor and sends it with the place; the changes are pending hunks.
 *
 * The server runs each edit in a session of its own. Asked again in a hunk of an edit, the instruction refines that
 * edit. Escape stops a running edit and undoes the one at the cursor.
 */

import * as vscode from 'vscode';
import type { InlineEditResult, Range, ReviewFile, ReviewHunk } from '../protocol.gen.ts';
import { linesOf, type Review } from '../review/review.ts';
import type { Connection } from '../server/connection.ts';
import { askText, showInfo, showWarning } from '../widgets.ts';
import { rangeOf } from './editorRequests.ts';

const PROMPT_PREFIX = 'inline-';

/** The id of the prompt of an inline edit, by which its turn is recognised in every window. */
export function newInlinePromptId(): string {
  return `${PROMPT_PREFIX}${crypto.randomUUID()}`;
}

export function isInlinePrompt(promptId: string | undefined): boolean {
  return promptId?.startsWith(PROMPT_PREFIX) ?? false;
}

export interface EditPlace {
  uri: string;
  range: Range;
}

/** A pending hunk of an inline edit. */
interface EditedHunk {
  file: ReviewFile;
  hunk: ReviewHunk;
}

export class InlineEdits implements vscode.Disposable {
  /** the sessions of the inline edits of this window */
  private readonly sessions = new Set<string>();
  private readonly running = new Map<vscode.CancellationTokenSource, { place: EditPlace; ended: Promise<unknown> }>();
  private readonly editedLines = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor('editor.rangeHighlightBackground'),
    after: { contentText: vscode.l10n.t('Pilotfish is editing… (Esc stops it)'), margin: '0 0 0 2em' },
  });
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly connection: Connection,
    private readonly review: Review,
    private readonly showSession: (sessionId: string) => Promise<void>,
  ) {
    const update = () => this.updateKeys();
    this.subscriptions = [
      this.editedLines,
      review.onDidChange(update),
      vscode.window.onDidChangeTextEditorSelection(update),
      vscode.window.onDidChangeActiveTextEditor(update),
    ];
  }

  dispose(): void {
    for (const source of this.running.keys()) source.cancel();
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** Asks what to change at a place, by default at the selection. */
  async start(place = selectedPlace()): Promise<void> {
    if (!place) return;
    const refined = this.editedAt(place);
    const prompt = await askText(
      refined
        ? { title: vscode.l10n.t('Refine this edit'), placeHolder: vscode.l10n.t('What should be different?') }
        : { title: vscode.l10n.t('Edit with Pilotfish'), placeHolder: vscode.l10n.t('What should change here?') },
    );
    if (!prompt?.trim()) return;
    const sessionId = refined?.file.sessionId;
    await this.run(place, (token) =>
      this.connection.request(
        'pilotfish/edit/inline',
        { ...place, prompt, promptId: newInlinePromptId(), ...(sessionId && { sessionId }) },
        token,
      ),
    );
  }

  /** Undoes an edit and runs its instruction again. */
  async retry(sessionId: string): Promise<void> {
    const file = this.review.ofSession(sessionId)[0];
    const range = file?.hunks[0]?.range;
    if (!file || !range) return;
    await this.run({ uri: file.uri, range }, (token) =>
      this.connection.request('pilotfish/edit/retry', { sessionId, promptId: newInlinePromptId() }, token),
    );
  }

  /** Stops the edits that run, and undoes the one at the cursor. */
  async undo(): Promise<void> {
    const stopped = [...this.running].map(([source, { ended }]) => {
      source.cancel();
      return ended;
    });
    await Promise.allSettled(stopped);
    await this.review.refresh();
    const place = selectedPlace();
    const edited = place && this.editedAt(place);
    if (!edited) return;
    const { sessionId, uri } = edited.file;
    await this.review.decide('undo', { sessionId, uri, hunkIds: [edited.hunk.id] });
  }

  private async run(
    place: EditPlace,
    request: (token: vscode.CancellationToken) => Promise<InlineEditResult>,
  ): Promise<void> {
    const source = new vscode.CancellationTokenSource();
    const ended = request(source.token).then((result) => {
      if (result.sessionId !== undefined) this.sessions.add(result.sessionId);
      return result;
    });
    this.running.set(source, { place, ended });
    this.draw();
    try {
      const { sessionId, error, stopReason, hunkIds = [] } = await ended;
      await this.review.refresh();
      if (error) void showWarning(`Pilotfish: ${error.message} ${error.remedy}`);
      else if (hunkIds.length === 0 && stopReason !== 'cancelled') void this.offerAnswer(sessionId);
    } finally {
      this.running.delete(source);
      source.dispose();
      this.draw();
    }
  }

  private async offerAnswer(sessionId: string | undefined): Promise<void> {
    const show = vscode.l10n.t('Show the Answer');
    const pressed = await showInfo(vscode.l10n.t('Pilotfish has changed nothing here.'), show);
    if (pressed === show && sessionId !== undefined) await this.showSession(sessionId);
  }

  private draw(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const uri = editor.document.uri.toString();
      const places = [...this.running.values()]
        .map(({ place }) => place)
        .filter((place) => vscode.Uri.parse(place.uri).toString() === uri);
      editor.setDecorations(
        this.editedLines,
        places.map(({ range }) => new vscode.Range(range.start.line, 0, lastLine(range), 0)),
      );
    }
    this.updateKeys();
  }

  private updateKeys(): void {
    const place = selectedPlace();
    const edited = place !== undefined && this.editedAt(place) !== undefined;
    void vscode.commands.executeCommand('setContext', 'pilotfish.inlineEdit', edited || this.running.size > 0);
  }

  private editedAt({ uri, range }: EditPlace): EditedHunk | undefined {
    const target = vscode.Uri.parse(uri).toString();
    const files = this.review.files.filter(
      (file) => this.sessions.has(file.sessionId) && vscode.Uri.parse(file.uri).toString() === target,
    );
    return hunkAt(files, range);
  }
}

/** The first hunk that shares a line with the range. */
export function hunkAt(files: readonly ReviewFile[], range: Range): EditedHunk | undefined {
  for (const file of files) {
    const hunk = file.hunks.find((one) => {
      const [first, last] = linesOf(one);
      return first <= lastLine(range) && range.start.line <= last;
    });
    if (hunk) return { file, hunk };
  }
  return undefined;
}

/** The last line of a range. A selection of whole lines ends at the beginning of the next one. */
function lastLine({ start, end }: Range): number {
  return end.character === 0 && end.line > start.line ? end.line - 1 : end.line;
}

function selectedPlace(): EditPlace | undefined {
  const editor = vscode.window.activeTextEditor;
  return editor && { uri: editor.document.uri.toString(), range: rangeOf(editor.selection) };
}
