/** Attaching to the prompt that is being written: by command, by picker, by drop. */

import * as vscode from 'vscode';
import type { Chip } from '../../webview/messages.ts';
import { tellFailure } from '../errors.ts';
import type { Rooms } from '../services.ts';
import { documentChip, fileChip, problemChips, selectionChip } from './attachments.ts';

/** The selection of the active editor. */
export async function attachSelection(rooms: Rooms): Promise<void> {
  await attach(rooms, selectionChip(vscode.window.activeTextEditor));
}

/** This file or folder, or the document in view. */
export async function attachFile(rooms: Rooms, uri: vscode.Uri | undefined): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  await attach(rooms, uri ? await fileChip(uri) : document && documentChip(document));
}

/** What was dropped onto the composer. */
export async function attachDropped(rooms: Rooms, uris: readonly string[]): Promise<void> {
  const chips = await chipsOf(rooms, uris.map(localUri));
  rooms.view.post({ type: 'attach', chips });
}

export async function attachPick(rooms: Rooms): Promise<void> {
  const selection = selectionChip(vscode.window.activeTextEditor);
  const document = vscode.window.activeTextEditor?.document;
  const items = [
    ...(selection
      ? [
          {
            label: `$(list-selection) ${vscode.l10n.t('Selection')}`,
            description: selection.label,
            do: 'selection' as const,
          },
        ]
      : []),
    ...(document
      ? [
          {
            label: `$(file) ${vscode.l10n.t('This file')}`,
            description: vscode.workspace.asRelativePath(document.uri),
            do: 'document' as const,
          },
        ]
      : []),
    ...(document && vscode.languages.getDiagnostics(document.uri).length > 0
      ? [{ label: `$(warning) ${vscode.l10n.t('Problems of this file')}`, do: 'problems' as const }]
      : []),
    { label: `$(folder-opened) ${vscode.l10n.t('Files or images…')}`, do: 'files' as const },
  ];
  const picked = await vscode.window.showQuickPick(items, { title: vscode.l10n.t('Attach') });
  if (picked?.do === 'selection') await attach(rooms, selection);
  else if (picked?.do === 'document' && document) await attach(rooms, documentChip(document));
  else if (picked?.do === 'problems' && document)
    await rooms.view.tell({
      type: 'attach',
      chips: problemChips(document.uri, vscode.languages.getDiagnostics(document.uri)),
    });
  else if (picked?.do === 'files') await attachFiles(rooms);
}

async function attachFiles(rooms: Rooms): Promise<void> {
  const uris = await vscode.window.showOpenDialog({ canSelectMany: true, openLabel: vscode.l10n.t('Attach') });
  const chips = await chipsOf(rooms, uris ?? []);
  if (chips.length > 0) await rooms.view.tell({ type: 'attach', chips });
}

/** Those that can be attached; of the others it is said why not. */
async function chipsOf({ log }: Rooms, uris: readonly vscode.Uri[]): Promise<readonly Chip[]> {
  const chips: Chip[] = [];
  for (const uri of uris) {
    try {
      chips.push(await fileChip(uri));
    } catch (error) {
      tellFailure(error, log, 'attach');
    }
  }
  return chips;
}

async function attach({ view }: Rooms, chip: Chip | undefined): Promise<void> {
  if (!chip) {
    void vscode.window.setStatusBarMessage(vscode.l10n.t('Pilotfish: nothing to attach'), 3000);
    return;
  }
  await view.tell({ type: 'attach', chips: [chip] });
  view.post({ type: 'focus' });
}

/** Over remote, drops name files by `vscode-remote:`; here they are plain files. */
function localUri(uri: string): vscode.Uri {
  const parsed = vscode.Uri.parse(uri);
  return parsed.scheme === 'vscode-remote' ? vscode.Uri.file(parsed.path) : parsed;
}
