/** Attachments of a prompt: makes chips from parts of the workspace, and the commands that attach them. */

import * as vscode from 'vscode';
import { lineRange } from '../../webview/common/format.ts';
import { type Chip, MAX_IMAGE } from '../../webview/messages.ts';
import { lspDiagnostic, rangeOf } from '../editor/editorRequests.ts';
import { reportFailure } from '../errors.ts';
import type { ContentBlock } from '../protocol.gen.ts';
import type { Services } from '../services.ts';
import { flashStatus, pick } from '../widgets.ts';

/** Attaches the selection of the active editor. */
export async function attachSelection(services: Services): Promise<void> {
  await attach(services, selectionChip(vscode.window.activeTextEditor));
}

/** Attaches a file or folder, or the active document. */
export async function attachFile(services: Services, uri: vscode.Uri | undefined): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  await attach(services, uri ? await fileChip(uri) : document && documentChip(document));
}

/** Attaches files that were dropped on the composer. */
export async function attachDropped(services: Services, uris: readonly string[]): Promise<void> {
  const chips = await chipsOf(services, uris.map(localUri));
  services.view.post({ type: 'attach', chips });
}

/** Asks the user what to attach. */
export async function attachPick(services: Services): Promise<void> {
  const selection = selectionChip(vscode.window.activeTextEditor);
  const document = vscode.window.activeTextEditor?.document;
  const items = [
    ...(selection
      ? [
          {
            label: vscode.l10n.t('Selection'),
            icon: 'list-selection',
            description: selection.label,
            do: 'selection' as const,
          },
        ]
      : []),
    ...(document
      ? [
          {
            label: vscode.l10n.t('This file'),
            icon: 'file',
            description: vscode.workspace.asRelativePath(document.uri),
            do: 'document' as const,
          },
        ]
      : []),
    ...(document && vscode.languages.getDiagnostics(document.uri).length > 0
      ? [{ label: vscode.l10n.t('Problems in this file'), icon: 'warning', do: 'problems' as const }]
      : []),
    { label: vscode.l10n.t('Files or images…'), icon: 'folder-opened', do: 'files' as const },
  ];
  const picked = await pick(items, { title: vscode.l10n.t('Attach') });
  if (picked?.do === 'selection') await attach(services, selection);
  else if (picked?.do === 'document' && document) await attach(services, documentChip(document));
  else if (picked?.do === 'problems' && document)
    await services.view.revealAndPost({
      type: 'attach',
      chips: problemChips(document.uri, vscode.languages.getDiagnostics(document.uri)),
    });
  else if (picked?.do === 'files') await attachFiles(services);
}

async function attachFiles(services: Services): Promise<void> {
  const uris = await vscode.window.showOpenDialog({ canSelectMany: true, openLabel: vscode.l10n.t('Attach') });
  const chips = await chipsOf(services, uris ?? []);
  if (chips.length > 0) await services.view.revealAndPost({ type: 'attach', chips });
}

/** The chips of the files that can be attached. Reports why the others cannot. */
async function chipsOf({ log }: Services, uris: readonly vscode.Uri[]): Promise<readonly Chip[]> {
  const chips: Chip[] = [];
  for (const uri of uris) {
    try {
      chips.push(await fileChip(uri));
    } catch (error) {
      reportFailure(error, log, 'attach');
    }
  }
  return chips;
}

async function attach({ view }: Services, chip: Chip | undefined): Promise<void> {
  if (!chip) {
    flashStatus(vscode.l10n.t('Pilotfish: nothing to attach'), 3000);
    return;
  }
  await view.revealAndPost({ type: 'attach', chips: [chip] });
  view.post({ type: 'focus' });
}

/** In a remote window, dropped files have `vscode-remote:` URIs; the extension host sees them as local files. */
function localUri(uri: string): vscode.Uri {
  const parsed = vscode.Uri.parse(uri);
  return parsed.scheme === 'vscode-remote' ? vscode.Uri.file(parsed.path) : parsed;
}

/** The selection, or undefined if it is empty. A selection in an unsaved document is sent with its text. */
export function selectionChip(editor: vscode.TextEditor | undefined): Chip | undefined {
  if (!editor || editor.selection.isEmpty) return undefined;
  const { document, selection } = editor;
  const lines = lineRange(selection);
  const name = vscode.workspace.asRelativePath(document.uri);
  const text = document.uri.scheme === 'file' ? {} : { text: document.getText(selection) };
  return {
    id: `${document.uri.toString()}#${lines}`,
    label: `${name.split('/').at(-1)}:${lines}`,
    detail: name,
    icon: 'selection',
    block: { type: 'resource', uri: document.uri.toString(), range: rangeOf(selection), ...text },
  };
}

const IMAGES: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
};

/** A file, a folder or an image. Throws for an image that is too large for every provider. */
export async function fileChip(uri: vscode.Uri): Promise<Chip> {
  const stat = await Promise.resolve(vscode.workspace.fs.stat(uri)).catch(() => undefined);
  const folder = stat !== undefined && (stat.type & vscode.FileType.Directory) !== 0;
  const name = vscode.workspace.asRelativePath(uri);
  const named = { id: uri.toString(), label: name.split('/').at(-1) ?? name, detail: name };
  const mimeType = IMAGES[uri.path.split('.').at(-1)?.toLowerCase() ?? ''];
  if (folder || mimeType === undefined) {
    return { ...named, icon: folder ? 'folder' : 'file', block: { type: 'resource', uri: uri.toString() } };
  }
  if ((stat?.size ?? 0) > MAX_IMAGE) throw new Error(vscode.l10n.t('{0} is too large to attach.', named.label));
  const data = Buffer.from(await vscode.workspace.fs.readFile(uri)).toString('base64');
  return { ...named, icon: 'image', block: { type: 'image', mimeType, data } };
}

export function documentChip(document: vscode.TextDocument): Chip {
  const name = vscode.workspace.asRelativePath(document.uri);
  const text = document.uri.scheme === 'file' ? {} : { text: document.getText() };
  const block: ContentBlock = { type: 'resource', uri: document.uri.toString(), ...text };
  return { id: document.uri.toString(), label: name.split('/').at(-1) ?? name, detail: name, icon: 'file', block };
}

/** Diagnostics of the language servers, each with its location. */
export function problemChips(uri: vscode.Uri, diagnostics: readonly vscode.Diagnostic[]): readonly Chip[] {
  return diagnostics.slice(0, 20).map((diagnostic, index) => ({
    id: `${uri.toString()}!${index}!${diagnostic.range.start.line}`,
    label: diagnostic.message.split('\n', 1)[0] ?? '',
    icon: 'problem',
    block: {
      type: 'diagnostic',
      uri: uri.toString(),
      diagnostic: lspDiagnostic(diagnostic),
    },
  }));
}

/** The text and chips that a prompt was composed from. */
export function toComposer(prompt: readonly ContentBlock[]): { text: string; chips: readonly Chip[] } {
  const textBlock = prompt.find((block) => block.type === 'text');
  const attached = prompt.filter((block) => block !== textBlock).filter((block) => block.type !== 'context');
  return { text: textBlock?.text ?? '', chips: attached.map(blockChip) };
}

function blockChip(block: Exclude<ContentBlock, { type: 'context' }>, index: number): Chip {
  switch (block.type) {
    case 'resource': {
      const name = vscode.workspace.asRelativePath(vscode.Uri.parse(block.uri));
      const lines = block.range ? `:${lineRange(block.range)}` : '';
      return {
        id: `${block.uri}${lines}`,
        label: `${name.split('/').at(-1)}${lines}`,
        detail: name,
        icon: block.range ? 'selection' : 'file',
        block,
      };
    }
    case 'diagnostic':
      return {
        id: `${block.uri}!${index}`,
        label: block.diagnostic.message.split('\n', 1)[0] ?? '',
        icon: 'problem',
        block,
      };
    case 'image':
      return { id: `image-${index}`, label: vscode.l10n.t('Image'), icon: 'image', block };
    case 'text':
      return { id: `text-${index}`, label: vscode.l10n.t('Text'), icon: 'paste', block };
    default:
      return block satisfies never;
  }
}
