/** Answers the server's requests to the editor: opens and saves documents, queries other language servers, shows diffs. */

import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import type { Proposals } from '../approvals/proposals.ts';
import { messageOf } from '../errors.ts';
import type {
  CodeActionsParams,
  CodeActionsResult,
  Diagnostic,
  DiagnosticsParams,
  DiagnosticsResult,
  DocumentDiagnostics,
  Location,
  OpenResult,
  PlaceParams,
  Range,
  ReferencesParams,
  RenameParams,
  RenameResult,
  SaveResult,
  SymbolsParams,
  SymbolsResult,
} from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

/** Diagnostics that do not change for this long count as complete, in ms. */
const QUIET_MS = 250;
const DIAGNOSTICS_TIMEOUT_MS = 2000;
const MAX_RESOLVED_ACTIONS = 20;

export function registerEditorRequests(
  connection: Connection,
  proposals: Proposals,
  client: () => LanguageClient | undefined,
): void {
  connection.answer('pilotfish/editor/open', ({ uris }) => open(uris));
  connection.answer('pilotfish/editor/save', ({ uris }) => save(uris));
  connection.answer('pilotfish/editor/diagnostics', diagnostics);
  connection.answer('pilotfish/editor/codeActions', (params) => codeActions(params, client()));
  connection.answer('pilotfish/editor/definition', async (params) => ({
    locations: await locations('vscode.executeDefinitionProvider', params),
  }));
  connection.answer('pilotfish/editor/references', async (params) => ({ locations: await references(params) }));
  connection.answer('pilotfish/editor/symbols', symbols);
  connection.answer('pilotfish/editor/rename', rename);
  connection.answer('pilotfish/editor/diff', async ({ title, uri, before, after }) => {
    await proposals.showDiff(before, after, vscode.Uri.parse(uri), title);
    return {};
  });
}

/** Opens documents without a tab. VS Code sends their `didOpen` before this returns. */
export async function open(uris: readonly string[]): Promise<OpenResult> {
  const opened: OpenResult['opened'] = [];
  const failed: OpenResult['failed'] = [];
  for (const uri of uris) {
    try {
      const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
      opened.push({ uri, version: document.version, dirty: isDirty(document) });
    } catch (error) {
      failed.push({ uri, reason: messageOf(error) });
    }
  }
  return { opened, failed };
}

/** Saves documents and checks that the file equals the text: `save()` alone does not ensure that while the user types. */
export async function save(uris: readonly string[]): Promise<SaveResult> {
  const saved: string[] = [];
  const failed: SaveResult['failed'] = [];
  for (const uri of uris) {
    try {
      const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
      const done = (await saveOnce(document)) || (await saveOnce(document));
      if (done) saved.push(uri);
      else
        failed.push({
          uri,
          reason: vscode.l10n.t('The document changed while it was being saved, or the file changed on disk.'),
        });
    } catch (error) {
      failed.push({ uri, reason: messageOf(error) });
    }
  }
  return { saved, failed };
}

/**
 * Applies an edit of the server, and saves the documents that have no tab and were saved before.
 *
 * VS Code opens a tab for a document that stays unsaved for a moment, and the server's own request to save it can come
 * later than that.
 */
export async function applyAndSave<T>(uris: readonly string[], apply: () => Promise<T>): Promise<T> {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  const isOpen = (uri: string) =>
    tabs.some(({ input }) => input instanceof vscode.TabInputText && input.uri.toString() === uri) ||
    vscode.workspace.textDocuments.some((document) => document.uri.toString() === uri && document.isDirty);
  const closed = uris.map((uri) => vscode.Uri.parse(uri).toString()).filter((uri) => !isOpen(uri));
  const result = await apply();
  for (const document of vscode.workspace.textDocuments) {
    if (closed.includes(document.uri.toString()) && document.isDirty) await document.save();
  }
  return result;
}

async function saveOnce(document: vscode.TextDocument): Promise<boolean> {
  if (isDirty(document)) await document.save();
  if (isDirty(document)) return false;
  const bytes = await vscode.workspace.fs.readFile(document.uri);
  const disk = await vscode.workspace.decode(bytes, { uri: document.uri });
  return disk.replace(/^\ufeff/, '') === document.getText();
}

/** `document.isDirty` can be wrong after typing during a save; the tab is right then. */
function isDirty(document: vscode.TextDocument): boolean {
  const key = document.uri.toString();
  const tab = vscode.window.tabGroups.all
    .flatMap((group) => group.tabs)
    .find(({ input }) => input instanceof vscode.TabInputText && input.uri.toString() === key);
  return document.isDirty || (tab?.isDirty ?? false);
}

export async function diagnostics({ uri, waitForVersion, timeoutMs }: DiagnosticsParams): Promise<DiagnosticsResult> {
  if (uri === undefined) {
    const documents = vscode.languages.getDiagnostics().filter(([, found]) => found.length > 0);
    return { documents: documents.map(([one, found]) => documentDiagnostics(one, found)) };
  }
  const target = vscode.Uri.parse(uri);
  if (waitForVersion !== undefined)
    await waitForDiagnostics(target, waitForVersion, timeoutMs ?? DIAGNOSTICS_TIMEOUT_MS);
  return { documents: [documentDiagnostics(target, vscode.languages.getDiagnostics(target))] };
}

/** Waits until the document has the version and its diagnostics have changed and are stable, or until the timeout. */
async function waitForDiagnostics(uri: vscode.Uri, version: number, timeoutMs: number): Promise<void> {
  const key = uri.toString();
  await new Promise<void>((resolve) => {
    let quiet: NodeJS.Timeout | undefined;
    const versionReached = () => {
      const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === key);
      return document === undefined || document.version >= version;
    };
    const subscription = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
      if (!uris.some((one) => one.toString() === key) || !versionReached()) return;
      clearTimeout(quiet);
      quiet = setTimeout(done, QUIET_MS);
    });
    const limit = setTimeout(done, timeoutMs);
    function done() {
      clearTimeout(quiet);
      clearTimeout(limit);
      subscription.dispose();
      resolve();
    }
  });
}

function documentDiagnostics(uri: vscode.Uri, found: readonly vscode.Diagnostic[]): DocumentDiagnostics {
  const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
  return {
    uri: uri.toString(),
    ...(document && { version: document.version }),
    diagnostics: found.map(lspDiagnostic),
  };
}

/** LSP's Diagnostic, with everything that the language server said about it. */
export function lspDiagnostic(diagnostic: vscode.Diagnostic): Diagnostic {
  const { code, source, relatedInformation } = diagnostic;
  const value = typeof code === 'object' ? code.value : code;
  return {
    range: rangeOf(diagnostic.range),
    message: diagnostic.message,
    severity: diagnostic.severity + 1,
    ...(value !== undefined && { code: value }),
    ...(typeof code === 'object' && { codeDescription: { href: code.target.toString(true) } }),
    ...(source !== undefined && { source }),
    ...(relatedInformation?.length && {
      relatedInformation: relatedInformation.map(({ location, message }) => ({
        location: { uri: location.uri.toString(), range: rangeOf(location.range) },
        message,
      })),
    }),
  };
}

async function codeActions(
  { uri, range, only }: CodeActionsParams,
  client: LanguageClient | undefined,
): Promise<CodeActionsResult> {
  const found = await vscode.commands.executeCommand<(vscode.CodeAction | vscode.Command)[]>(
    'vscode.executeCodeActionProvider',
    vscode.Uri.parse(uri),
    toRange(range),
    only?.[0],
    MAX_RESOLVED_ACTIONS,
  );
  const actions: Record<string, unknown>[] = [];
  for (const action of found ?? []) {
    const command = action.command;
    const name = typeof command === 'string' ? command : command?.command;
    if (name?.startsWith('pilotfish.')) continue;
    if (typeof command === 'string') {
      actions.push({ title: action.title, command: { title: action.title, command } });
      continue;
    }
    const { edit, kind, isPreferred, diagnostics } = action as vscode.CodeAction;
    actions.push({
      title: action.title,
      ...(kind && { kind: kind.value }),
      ...(isPreferred !== undefined && { isPreferred }),
      ...(diagnostics && {
        diagnostics: diagnostics.map(({ range, message }) => ({ range: rangeOf(range), message })),
      }),
      ...(edit && { edit: workspaceEdit(edit) }),
      ...(command && client && { command: client.code2ProtocolConverter.asCommand(command) }),
    });
  }
  return { actions };
}

async function locations(command: string, { uri, position }: PlaceParams): Promise<Location[]> {
  const found = await vscode.commands.executeCommand<(vscode.Location | vscode.LocationLink)[]>(
    command,
    vscode.Uri.parse(uri),
    toPosition(position),
  );
  return (found ?? []).map((place) =>
    'targetUri' in place
      ? { uri: place.targetUri.toString(), range: rangeOf(place.targetSelectionRange ?? place.targetRange) }
      : { uri: place.uri.toString(), range: rangeOf(place.range) },
  );
}

async function references(params: ReferencesParams): Promise<Location[]> {
  const found = await locations('vscode.executeReferenceProvider', params);
  if (params.includeDeclaration !== false) return found;
  const declared = new Set(
    (await locations('vscode.executeDefinitionProvider', params)).map((place) => JSON.stringify(place)),
  );
  return found.filter((place) => !declared.has(JSON.stringify(place)));
}

async function symbols({ uri, query }: SymbolsParams): Promise<SymbolsResult> {
  if (uri !== undefined) {
    const found = await vscode.commands.executeCommand<(vscode.DocumentSymbol | vscode.SymbolInformation)[]>(
      'vscode.executeDocumentSymbolProvider',
      vscode.Uri.parse(uri),
    );
    return { symbols: (found ?? []).map(symbolOf) };
  }
  const found = await vscode.commands.executeCommand<vscode.SymbolInformation[]>(
    'vscode.executeWorkspaceSymbolProvider',
    query ?? '',
  );
  return { symbols: (found ?? []).map(symbolOf) };
}

function symbolOf(symbol: vscode.DocumentSymbol | vscode.SymbolInformation): Record<string, unknown> {
  // VS Code counts symbol kinds from 0, LSP from 1.
  const kind = symbol.kind + 1;
  if ('selectionRange' in symbol) {
    return {
      name: symbol.name,
      kind,
      ...(symbol.detail && { detail: symbol.detail }),
      range: rangeOf(symbol.range),
      selectionRange: rangeOf(symbol.selectionRange),
      children: symbol.children.map(symbolOf),
    };
  }
  const { uri, range } = symbol.location;
  return {
    name: symbol.name,
    kind,
    containerName: symbol.containerName,
    location: { uri: uri.toString(), range: rangeOf(range) },
  };
}

async function rename({ uri, position, newName }: RenameParams): Promise<RenameResult> {
  const edit = await vscode.commands.executeCommand<vscode.WorkspaceEdit | undefined>(
    'vscode.executeDocumentRenameProvider',
    vscode.Uri.parse(uri),
    toPosition(position),
    newName,
  );
  return edit && edit.size > 0 ? { edit: workspaceEdit(edit) } : {};
}

/** Converts a WorkspaceEdit to LSP. Only text changes: the server decides about file operations. */
export function workspaceEdit(edit: vscode.WorkspaceEdit): Record<string, unknown> {
  const changes: Record<string, { range: Range; newText: string }[]> = {};
  for (const [uri, edits] of edit.entries()) {
    changes[uri.toString()] = edits.map(({ range, newText }) => ({ range: rangeOf(range), newText }));
  }
  return { changes };
}

export function rangeOf(range: vscode.Range): Range {
  const { start, end } = range;
  return { start: { line: start.line, character: start.character }, end: { line: end.line, character: end.character } };
}

function toPosition({ line, character }: { line: number; character: number }): vscode.Position {
  return new vscode.Position(line, character);
}

function toRange({ start, end }: Range): vscode.Range {
  return new vscode.Range(toPosition(start), toPosition(end));
}
