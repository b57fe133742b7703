/** Parts of the workspace as attachments of a prompt: values, no questions. */

import * as vscode from 'vscode';
import { lineSpan } from '../../webview/common/format.ts';
import { type Chip, MAX_IMAGE } from '../../webview/messages.ts';
import { rangeOf } from '../editor/editorRequests.ts';
import type { ContentBlock } from '../protocol.gen.ts';

/** The selection, or undefined when there is none. What stands in no file is sent with its text. */
export function selectionChip(editor: vscode.TextEditor | undefined): Chip | undefined {
  if (!editor || editor.selection.isEmpty) return undefined;
  const { document, selection } = editor;
  const lines = lineSpan(selection);
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

/** A file or a folder; an image as one that a model can look at. Throws for an image no provider would take. */
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

/** Problems the language servers report, each with its place. */
export function problemChips(uri: vscode.Uri, diagnostics: readonly vscode.Diagnostic[]): readonly Chip[] {
  return diagnostics.slice(0, 20).map((diagnostic, index) => ({
    id: `${uri.toString()}!${index}!${diagnostic.range.start.line}`,
    label: diagnostic.message.split('\n', 1)[0] ?? '',
    icon: 'problem',
    block: {
      type: 'diagnostic',
      uri: uri.toString(),
      diagnostic: {
        range: rangeOf(diagnostic.range),
        message: diagnostic.message,
        severity: diagnostic.severity + 1,
        ...(diagnostic.source !== undefined && { source: diagnostic.source }),
      },
    },
  }));
}

/** A prompt that was sent before, as it stood in the composer. */
export function composed(prompt: readonly ContentBlock[]): { text: string; chips: readonly Chip[] } {
  const words = prompt.find((block) => block.type === 'text');
  return { text: words?.text ?? '', chips: prompt.filter((block) => block !== words).map(blockChip) };
}

function blockChip(block: ContentBlock, index: number): Chip {
  switch (block.type) {
    case 'resource': {
      const name = vscode.workspace.asRelativePath(vscode.Uri.parse(block.uri));
      const lines = block.range ? `:${lineSpan(block.range)}` : '';
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
