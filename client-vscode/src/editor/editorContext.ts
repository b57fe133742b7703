/**
 * What the user looks at: the active file with its cursor, selection, visible lines and problems.
 *
 * It goes with every prompt unless the user drops it with the chip in the composer. The choice is kept for the folder.
 */

import * as vscode from 'vscode';
import { lineRange } from '../../webview/common/format.ts';
import type { Looking } from '../../webview/messages.ts';
import type { ContextBlock, EditorContext } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { lspDiagnostic, rangeOf } from './editorRequests.ts';

const DROPPED_KEY = 'pilotfish.contextDropped';
const MAX_PROBLEMS = 20;
/** How long changes of the selection are collected before the chip is drawn again, in ms. */
const REDRAW_MS = 60;

export class EditorContextSource implements vscode.Disposable {
  private timer: NodeJS.Timeout | undefined;
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly storage: vscode.Memento,
    connection: Connection,
  ) {
    connection.answer('pilotfish/editor/context', () => this.current());
    const soon = () => this.changeSoon();
    this.subscriptions = [
      this.changed,
      vscode.window.onDidChangeActiveTextEditor(soon),
      vscode.window.onDidChangeVisibleTextEditors(soon),
      vscode.window.onDidChangeTextEditorSelection(soon),
    ];
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  get dropped(): boolean {
    return this.storage.get(DROPPED_KEY, false);
  }

  async drop(dropped: boolean): Promise<void> {
    await this.storage.update(DROPPED_KEY, dropped);
    this.changed.fire();
  }

  /** What goes with a prompt that is sent now. */
  block(): ContextBlock {
    return { type: 'context', git: true, ...this.current() };
  }

  /** What the chip shows; null without an editor. */
  looking(): Looking | null {
    const editor = lookedAt();
    if (!editor) return null;
    const path = vscode.workspace.asRelativePath(editor.document.uri);
    return {
      name: path.split('/').at(-1) ?? path,
      path,
      ...(!editor.selection.isEmpty && { lines: lineRange(editor.selection) }),
      dropped: this.dropped,
    };
  }

  private current(): EditorContext {
    if (this.dropped) return { git: false };
    const editor = lookedAt();
    if (!editor) return {};
    const { document, selection } = editor;
    const [visible] = editor.visibleRanges;
    const problems = vscode.languages
      .getDiagnostics(document.uri)
      .toSorted((one, other) => one.severity - other.severity)
      .slice(0, MAX_PROBLEMS);
    return {
      active: {
        uri: document.uri.toString(),
        version: document.version,
        cursor: { line: selection.active.line, character: selection.active.character },
        ...(!selection.isEmpty && { selection: rangeOf(selection) }),
        ...(visible && { visible: rangeOf(visible) }),
        diagnostics: problems.map(lspDiagnostic),
      },
    };
  }

  private changeSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.changed.fire(), REDRAW_MS);
  }
}

/** The editor that the user works in. An output channel or a diff of a proposal is none. */
function lookedAt(): vscode.TextEditor | undefined {
  const editors = [vscode.window.activeTextEditor, ...vscode.window.visibleTextEditors];
  return editors.find((editor) => editor?.document.uri.scheme === 'file');
}
