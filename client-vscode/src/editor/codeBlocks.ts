/**
 * Uses a code block of an answer: applies it to the file it belongs to, inserts it, or types it into a terminal.
 *
 * The server finds the place. The change is shown as a diff with Apply and Discard in its title, and applied as one
 * edit that can be undone.
 */

import * as vscode from 'vscode';
import type { LocateResult } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { showInfo } from '../widgets.ts';

/** Scheme of the right side of the diff: the file with the block in its place. */
const CODE = 'pilotfish-code';
/** Scheme of the left side: the file as it was when the place was found. */
const CODE_BEFORE = 'pilotfish-code-before';

/** A place that was found, and how to find it again. */
interface Located {
  uri: string;
  before: string;
  after: string;
  code: string;
  info: string;
}

export class CodeBlocks implements vscode.Disposable {
  private readonly located = new Map<string, Located>();
  private count = 0;
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly connection: Connection) {
    const text = (part: 'before' | 'after') => ({
      provideTextDocumentContent: (uri: vscode.Uri) => this.located.get(uri.query)?.[part] ?? '',
    });
    this.subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(CODE, text('after')),
      vscode.workspace.registerTextDocumentContentProvider(CODE_BEFORE, text('before')),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => {
        if (uri.scheme === CODE) this.located.delete(uri.query);
      }),
    ];
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** Finds the place of a block and shows what it would change; if no place is certain, the user chooses. */
  async apply(code: string, info: string): Promise<void> {
    const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
    const active = editor?.document.uri.scheme === 'file' ? editor.document.uri.toString() : undefined;
    await this.show(await this.locate(code, info, active), info);
  }

  /** Applies the change of a diff. If the file has changed since, the diff is shown again. */
  async accept(uri = activeDiff()): Promise<void> {
    const found = uri && this.located.get(uri.query);
    if (!found) return;
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(found.uri));
    if (linesOf(document.getText()).join('\n') !== found.before) {
      await this.discard(uri);
      void showInfo(vscode.l10n.t('The file has changed since. Look at the change again.'));
      await this.show(await this.locate(found.code, found.info, found.uri), found.info);
      return;
    }
    const { first, end, text } = changedLines(linesOf(found.before), linesOf(found.after));
    const range = document.validateRange(new vscode.Range(first, 0, end, 0));
    const edit = new vscode.WorkspaceEdit();
    edit.replace(document.uri, range, text);
    await vscode.workspace.applyEdit(edit);
    await this.discard(uri);
    const at = new vscode.Position(first, 0);
    await vscode.window.showTextDocument(document, { selection: new vscode.Range(at, at) });
  }

  /** Closes a diff. */
  async discard(uri = activeDiff()): Promise<void> {
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input }) => input instanceof vscode.TabInputTextDiff && isSame(input.modified, uri));
    await vscode.window.tabGroups.close(tabs, true);
  }

  private async locate(code: string, info: string, uri: string | undefined): Promise<LocateResult> {
    return this.connection.request('pilotfish/edit/locate', { code, info, ...(uri !== undefined && { uri }) });
  }

  private async show({ how, uri, before, after, code }: LocateResult, info: string): Promise<void> {
    if (how === 'same') return void showInfo(vscode.l10n.t('The file has this code already.'));
    if (how === undefined || uri === undefined || after === undefined) return offerPlaces(code);
    if (before === undefined) return openNew(vscode.Uri.parse(uri), after);
    this.count += 1;
    const query = String(this.count);
    this.located.set(query, { uri, before, after, code, info });
    const target = vscode.Uri.parse(uri);
    const { path } = target;
    const title = vscode.l10n.t('{0}: code of the answer', vscode.workspace.asRelativePath(target));
    const left = vscode.Uri.from({ scheme: CODE_BEFORE, path, query });
    await vscode.commands.executeCommand('vscode.diff', left, vscode.Uri.from({ scheme: CODE, path, query }), title, {
      preview: true,
    });
  }
}

/** Replaces the selection of the active editor, or opens a new document. */
export async function insertAtCursor(text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!editor) return openUntitled(text);
  await editor.edit((edit) => edit.replace(editor.selection, text));
}

/** Types the code into a terminal without running it. */
export function typeInTerminal(text: string): void {
  const terminal = vscode.window.activeTerminal ?? vscode.window.createTerminal();
  terminal.show(true);
  terminal.sendText(text.trimEnd(), false);
}

/** The lines `first` to `end` of a text that differ, and what they become. */
export function changedLines(
  before: readonly string[],
  after: readonly string[],
): { first: number; end: number; text: string } {
  const shorter = Math.min(before.length, after.length);
  let first = 0;
  while (first < shorter - 1 && before[first] === after[first]) first += 1;
  let tail = 0;
  while (tail < shorter - first - 1 && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  // A changed last line has no line end to put the next one behind.
  const isLast = tail === 0;
  const text = after.slice(first, after.length - tail).join('\n');
  return { first, end: isLast ? Number.MAX_SAFE_INTEGER : before.length - tail, text: isLast ? text : `${text}\n` };
}

async function offerPlaces(code: string): Promise<void> {
  const [insert, create] = [vscode.l10n.t('Insert at Cursor'), vscode.l10n.t('New File')];
  const pressed = await showInfo(vscode.l10n.t('It is not certain where this code belongs.'), insert, create);
  if (pressed === insert) await insertAtCursor(code);
  if (pressed === create) await openUntitled(code);
}

async function openUntitled(content: string): Promise<void> {
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content }));
}

/** Opens a new file that is not saved yet. */
async function openNew(uri: vscode.Uri, content: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument(uri.with({ scheme: 'untitled' }));
  const editor = await vscode.window.showTextDocument(document);
  if (document.getText() === '') await editor.edit((edit) => edit.insert(new vscode.Position(0, 0), content));
}

function activeDiff(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputTextDiff && input.modified.scheme === CODE ? input.modified : undefined;
}

function isSame(one: vscode.Uri, other: vscode.Uri | undefined): boolean {
  return one.scheme === CODE && one.query === other?.query;
}

function linesOf(text: string): string[] {
  return text.split(/\r\n|\r|\n/);
}
