/** Documents that are not files: a change before it is made, with its right side editable, and texts to look at. */

import * as vscode from 'vscode';
import type { ApprovalRequest } from '../protocol.gen.ts';
import { amendedArgs } from './amend.ts';
import type { Amendment, Approvals } from './approvals.ts';

/** The right side of a question's diff: what the user writes here can be allowed instead. */
export const PROPOSAL = 'pilotfish-proposal';
/** Read-only texts: left sides, suggestions, outputs. */
export const SHOWN = 'pilotfish-shown';

export class Proposals implements vscode.Disposable {
  private readonly files = new MemoryFiles();
  private readonly texts = new Map<string, string>();
  private readonly subscriptions: vscode.Disposable[];
  private readonly amended = new vscode.EventEmitter<{ approvalId: string; amended: boolean }>();
  private count = 0;
  /** the user wrote into a proposal, or took it back */
  readonly onDidAmend = this.amended.event;

  constructor(private readonly approvals: Approvals) {
    approvals.amendment = (request) => this.amendment(request);
    this.subscriptions = [
      this.amended,
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.tell(questionOf(document.uri))),
      vscode.workspace.registerFileSystemProvider(PROPOSAL, this.files, { isCaseSensitive: true }),
      vscode.workspace.registerTextDocumentContentProvider(SHOWN, {
        provideTextDocumentContent: (uri) => this.texts.get(uri.toString()) ?? '',
      }),
      // A tab that cannot be closed stays: nothing depends on it.
      approvals.onDidResolve(({ approvalId }) => {
        this.close(approvalId).catch(() => {});
      }),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.texts.delete(uri.toString())),
    ];
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** What a question would do to a file, in VS Code's diff editor. Only ever on request. */
  async showQuestion(approvalId: string, file: number, preserveFocus: boolean): Promise<void> {
    const request = this.approvals.find(approvalId);
    if (request?.preview.kind !== 'diff') return;
    const { files } = request.preview;
    const shown = files[file] ?? files[0];
    if (!shown) return;
    const target = vscode.Uri.parse(shown.uri);
    const left = this.text(shown.before ?? '', shortPath(target));
    const right = proposalUri(approvalId, files.indexOf(shown), target);
    if (!this.files.has(right)) this.files.put(right, shown.after ?? '');
    const counted = files.length > 1 ? ` (${files.indexOf(shown) + 1}/${files.length})` : '';
    const title = vscode.l10n.t('{0}: proposed change{1}', vscode.workspace.asRelativePath(target), counted);
    await openDiff(left, right, title, preserveFocus);
  }

  /** What the user has changed in the diffs of a question; undefined: nothing. Of several files, one can be changed. */
  amendment(request: ApprovalRequest): Amendment | undefined {
    if (request.preview.kind !== 'diff') return undefined;
    const changed = request.preview.files.flatMap((file, index) => {
      const uri = proposalUri(request.approvalId, index, vscode.Uri.parse(file.uri));
      const open = vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString());
      const text = open?.getText() ?? this.files.text(uri);
      return text === undefined || text === (file.after ?? '') ? [] : [{ index, text }];
    });
    const [first] = changed;
    if (!first) return undefined;
    const args = changed.length > 1 ? undefined : amendedArgs(request, first.index, first.text);
    return args ? { args } : {};
  }

  /** Which questions have changes of the user's: for a view that has just come. */
  tellAll(): void {
    for (const { approvalId } of this.approvals.open) if (this.has(approvalId)) this.tell(approvalId);
  }

  /** Back to what was proposed. */
  async discard(approvalId: string): Promise<void> {
    const request = this.approvals.find(approvalId);
    if (request?.preview.kind !== 'diff') return;
    for (const [index, file] of request.preview.files.entries()) {
      const uri = proposalUri(approvalId, index, vscode.Uri.parse(file.uri));
      if (!this.files.has(uri)) continue;
      const document = await vscode.workspace.openTextDocument(uri);
      const edit = new vscode.WorkspaceEdit();
      edit.replace(uri, new vscode.Range(0, 0, document.lineCount, 0), file.after ?? '');
      await vscode.workspace.applyEdit(edit);
      await document.save();
    }
  }

  /** Two texts side by side. */
  async showDiff(before: string, after: string | vscode.Uri, target: vscode.Uri, title: string): Promise<void> {
    const right = typeof after === 'string' ? this.text(after, shortPath(target)) : after;
    await openDiff(this.text(before, shortPath(target)), right, title, true);
  }

  /** Several files side by side in one editor. */
  async showMany(title: string, files: readonly { uri: vscode.Uri; before: string }[]): Promise<void> {
    const resources = files.map(({ uri, before }) => [uri, this.text(before, shortPath(uri)), uri]);
    await vscode.commands.executeCommand('vscode.changes', title, resources);
  }

  /** A text to read. */
  async showText(text: string, language: string): Promise<void> {
    const document = await vscode.workspace.openTextDocument({ content: text, language });
    await vscode.window.showTextDocument(document, { preview: true });
  }

  private has(approvalId: string): boolean {
    const request = this.approvals.find(approvalId);
    return request !== undefined && this.amendment(request) !== undefined;
  }

  private tell(approvalId: string | undefined): void {
    if (approvalId !== undefined) this.amended.fire({ approvalId, amended: this.has(approvalId) });
  }

  private text(text: string, path: string): vscode.Uri {
    this.count += 1;
    const uri = vscode.Uri.from({ scheme: SHOWN, path, query: String(this.count) });
    this.texts.set(uri.toString(), text);
    return uri;
  }

  /** The question is over. What was written beside it is let go: the answer has it, or nobody wanted it. */
  private async close(approvalId: string): Promise<void> {
    const mine = (uri: vscode.Uri) => questionOf(uri) === approvalId;
    for (const document of vscode.workspace.textDocuments) {
      if (mine(document.uri) && document.isDirty) await document.save();
    }
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input }) => input instanceof vscode.TabInputTextDiff && mine(input.modified));
    if (tabs.length > 0) await vscode.window.tabGroups.close(tabs, true);
    this.files.drop(mine);
  }
}

/** Which question a proposal belongs to. */
export function questionOf(uri: vscode.Uri | undefined): string | undefined {
  return uri?.scheme === PROPOSAL ? uri.query.split('&')[0] : undefined;
}

function proposalUri(approvalId: string, file: number, target: vscode.Uri): vscode.Uri {
  return vscode.Uri.from({ scheme: PROPOSAL, path: shortPath(target), query: `${approvalId}&${file}` });
}

/** As the user knows the file: below the workspace where it is there. */
function shortPath(uri: vscode.Uri): string {
  const path = vscode.workspace.asRelativePath(uri, false);
  return path.startsWith('/') ? path : `/${path}`;
}

async function openDiff(left: vscode.Uri, right: vscode.Uri, title: string, preserveFocus: boolean): Promise<void> {
  await vscode.commands.executeCommand('vscode.diff', left, right, title, { preview: true, preserveFocus });
}

/** Files that exist in memory while their question is open. */
class MemoryFiles implements vscode.FileSystemProvider {
  private readonly contents = new Map<string, { data: Uint8Array; mtime: number }>();
  private readonly changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly onDidChangeFile = this.changed.event;

  has(uri: vscode.Uri): boolean {
    return this.contents.has(uri.toString());
  }

  put(uri: vscode.Uri, text: string): void {
    this.writeFile(uri, new TextEncoder().encode(text));
  }

  text(uri: vscode.Uri): string | undefined {
    const found = this.contents.get(uri.toString());
    return found && new TextDecoder().decode(found.data);
  }

  drop(wanted: (uri: vscode.Uri) => boolean): void {
    for (const key of [...this.contents.keys()]) if (wanted(vscode.Uri.parse(key))) this.contents.delete(key);
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => {});
  }

  stat(uri: vscode.Uri): vscode.FileStat {
    const { data, mtime } = this.get(uri);
    return { type: vscode.FileType.File, ctime: 0, mtime, size: data.length };
  }

  readFile(uri: vscode.Uri): Uint8Array {
    return this.get(uri).data;
  }

  writeFile(uri: vscode.Uri, data: Uint8Array): void {
    this.contents.set(uri.toString(), { data, mtime: Date.now() });
    this.changed.fire([{ type: vscode.FileChangeType.Changed, uri }]);
  }

  readDirectory(): [string, vscode.FileType][] {
    return [];
  }

  createDirectory(): void {
    throw vscode.FileSystemError.NoPermissions();
  }

  delete(): void {
    throw vscode.FileSystemError.NoPermissions();
  }

  rename(): void {
    throw vscode.FileSystemError.NoPermissions();
  }

  private get(uri: vscode.Uri): { data: Uint8Array; mtime: number } {
    const found = this.contents.get(uri.toString());
    if (!found) throw vscode.FileSystemError.FileNotFound(uri);
    return found;
  }
}
