/** Shows proposed changes in diff editors, lets the user edit them before allowing, and opens read-only texts and diffs. */

import * as vscode from 'vscode';
import { previewFiles } from '../../webview/common/diffLines.ts';
import type { ApprovalRequest } from '../protocol.gen.ts';
import type { Amendment, Approvals } from './approvals.ts';

/** Scheme of the editable right side of an approval's diff. */
export const PROPOSAL = 'pilotfish-proposal';
/** Scheme of read-only texts: left sides of diffs, suggestions, outputs. */
export const READ_ONLY = 'pilotfish-shown';

export class Proposals implements vscode.Disposable {
  private readonly files = new MemoryFiles();
  private readonly texts = new Map<string, string>();
  private readonly subscriptions: vscode.Disposable[];
  private readonly amended = new vscode.EventEmitter<{ approvalId: string; amended: boolean }>();
  private count = 0;
  /** the user changed a proposal, or discarded the changes */
  readonly onDidAmend = this.amended.event;

  constructor(private readonly approvals: Approvals) {
    approvals.amendment = (request) => this.amendment(request);
    this.subscriptions = [
      this.amended,
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.fireAmended(approvalIdOf(document.uri))),
      vscode.workspace.registerFileSystemProvider(PROPOSAL, this.files, { isCaseSensitive: true }),
      vscode.workspace.registerTextDocumentContentProvider(READ_ONLY, {
        provideTextDocumentContent: (uri) => this.texts.get(uri.toString()) ?? '',
      }),
      // Nothing depends on the tab being closed, so a failure is ignored.
      approvals.onDidResolve(({ approvalId }) => {
        this.close(approvalId).catch(() => {});
      }),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.texts.delete(uri.toString())),
    ];
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** Opens VS Code's diff editor with the change that an approval proposes for a file. */
  async showApproval(approvalId: string, file: number, preserveFocus: boolean): Promise<void> {
    const request = this.approvals.find(approvalId);
    const files = request ? previewFiles(request) : [];
    const preview = files[file] ?? files[0];
    if (!request || !preview) return;
    const target = vscode.Uri.parse(preview.uri);
    const position = files.length > 1 ? ` (${files.indexOf(preview) + 1}/${files.length})` : '';
    const title = vscode.l10n.t('{0}: proposed change{1}', vscode.workspace.asRelativePath(target), position);
    if (request.preview.kind === 'command') {
      // What a command did is applied as it is, so it cannot be edited here.
      await this.showDiff(preview.before ?? '', preview.after ?? '', target, title);
      return;
    }
    const left = this.readOnly(preview.before ?? '', shortPath(target));
    const right = proposalUri(approvalId, files.indexOf(preview), target);
    if (!this.files.has(right)) this.files.put(right, preview.after ?? '');
    await openDiff(left, right, title, preserveFocus);
  }

  /** The user's changes to the proposal, or undefined if there are none. Changes to more than one file cannot be applied. */
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

  /** Fires `onDidAmend` for every proposal that the user has changed, for a page that was just loaded. */
  reportAmended(): void {
    for (const { approvalId } of this.approvals.pending) if (this.isAmended(approvalId)) this.fireAmended(approvalId);
  }

  /** Resets the proposal to what the agent proposed. */
  async discardChanges(approvalId: string): Promise<void> {
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

  /** Opens a diff editor for two texts, or for a text and a file. */
  async showDiff(before: string, after: string | vscode.Uri, target: vscode.Uri, title: string): Promise<void> {
    const right = typeof after === 'string' ? this.readOnly(after, shortPath(target)) : after;
    await openDiff(this.readOnly(before, shortPath(target)), right, title, true);
  }

  /** Opens one editor with the diffs of several files. */
  async showMany(title: string, files: readonly { uri: vscode.Uri; before: string }[]): Promise<void> {
    const resources = files.map(({ uri, before }) => [uri, this.readOnly(before, shortPath(uri)), uri]);
    await vscode.commands.executeCommand('vscode.changes', title, resources);
  }

  /** Opens a text in an untitled document. */
  async showText(text: string, language: string): Promise<void> {
    const document = await vscode.workspace.openTextDocument({ content: text, language });
    await vscode.window.showTextDocument(document, { preview: true });
  }

  private isAmended(approvalId: string): boolean {
    const request = this.approvals.find(approvalId);
    return request !== undefined && this.amendment(request) !== undefined;
  }

  private fireAmended(approvalId: string | undefined): void {
    if (approvalId !== undefined) this.amended.fire({ approvalId, amended: this.isAmended(approvalId) });
  }

  private readOnly(text: string, path: string): vscode.Uri {
    this.count += 1;
    const uri = vscode.Uri.from({ scheme: READ_ONLY, path, query: String(this.count) });
    this.texts.set(uri.toString(), text);
    return uri;
  }

  /** Closes the diff editors of an approval that is resolved, and drops the user's changes. */
  private async close(approvalId: string): Promise<void> {
    const belongs = (uri: vscode.Uri) => approvalIdOf(uri) === approvalId;
    for (const document of vscode.workspace.textDocuments) {
      if (belongs(document.uri) && document.isDirty) await document.save();
    }
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input }) => input instanceof vscode.TabInputTextDiff && belongs(input.modified));
    if (tabs.length > 0) await vscode.window.tabGroups.close(tabs, true);
    this.files.drop(belongs);
  }
}

/** Changes the call's arguments so that the file becomes `text`. Returns undefined if the call cannot express that. */
export function amendedArgs(request: ApprovalRequest, file: number, text: string): Record<string, unknown> | undefined {
  if (request.preview.kind !== 'diff') return undefined;
  const preview = request.preview.files[file];
  if (!preview) return undefined;
  const { args } = request.call;
  const contentArg = Object.keys(args).find((name) => typeof args[name] === 'string' && args[name] === preview.after);
  if (contentArg !== undefined) return { ...args, [contentArg]: text };
  if (Array.isArray(args.edits) && preview.before !== null) {
    return { ...args, edits: [smallestEdit(preview.before, text)] };
  }
  return 'content' in args ? { ...args, content: text } : undefined;
}

/** One replacement of whole lines that turns `before` into `after`, with enough context to occur only once. */
export function smallestEdit(before: string, after: string): { old_string: string; new_string: string } {
  const oldLines = before.split('\n');
  const newLines = after.split('\n');
  let head = 0;
  while (head < oldLines.length && head < newLines.length && oldLines[head] === newLines[head]) head += 1;
  let tail = 0;
  while (
    tail < oldLines.length - head &&
    tail < newLines.length - head &&
    oldLines.at(-1 - tail) === newLines.at(-1 - tail)
  )
    tail += 1;
  for (;;) {
    const text = oldLines.slice(head, oldLines.length - tail).join('\n');
    if ((text.trim() !== '' && occursOnce(before, text)) || (head === 0 && tail === 0)) {
      return { old_string: text, new_string: newLines.slice(head, newLines.length - tail).join('\n') };
    }
    head = Math.max(0, head - 1);
    tail = Math.max(0, tail - 1);
  }
}

function occursOnce(text: string, part: string): boolean {
  const first = text.indexOf(part);
  return first >= 0 && text.indexOf(part, first + 1) < 0;
}

/** The approval that a proposal document belongs to. */
export function approvalIdOf(uri: vscode.Uri | undefined): string | undefined {
  return uri?.scheme === PROPOSAL ? uri.query.split('&')[0] : undefined;
}

function proposalUri(approvalId: string, file: number, target: vscode.Uri): vscode.Uri {
  return vscode.Uri.from({ scheme: PROPOSAL, path: shortPath(target), query: `${approvalId}&${file}` });
}

/** The path relative to the workspace if the file is inside it, otherwise the whole path. */
function shortPath(uri: vscode.Uri): string {
  const path = vscode.workspace.asRelativePath(uri, false);
  return path.startsWith('/') ? path : `/${path}`;
}

async function openDiff(left: vscode.Uri, right: vscode.Uri, title: string, preserveFocus: boolean): Promise<void> {
  await vscode.commands.executeCommand('vscode.diff', left, right, title, { preview: true, preserveFocus });
}

/** In-memory files that exist while their approval is pending. */
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
