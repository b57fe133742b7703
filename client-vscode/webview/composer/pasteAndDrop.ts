/** Turns pasted and dropped images, files and long texts into chips. */

import { l10n } from '../common/l10n.ts';
import { type Chip, MAX_IMAGE } from '../messages.ts';
import { newId, post } from '../state/store.ts';
import { addChips, addToDraft, isLongPaste } from './draft.ts';

const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

export async function pasteChips(event: ClipboardEvent): Promise<void> {
  const data = event.clipboardData;
  if (!data) return;
  const images = [...data.files].filter((file) => IMAGE_TYPES.includes(file.type));
  if (images.length > 0) {
    event.preventDefault();
    addChips(await Promise.all(images.map(imageChip)).then(present));
    return;
  }
  const text = data.getData('text/plain');
  if (!isLongPaste(text)) return;
  event.preventDefault();
  const label = l10n.t('{0} lines pasted', text.split('\n').length);
  addChips([{ id: newId('paste'), label, icon: 'paste', block: { type: 'text', text } }]);
}

/** The Explorer and editor tabs provide URIs; other applications provide files. */
export async function dropChips(event: DragEvent): Promise<void> {
  const data = event.dataTransfer;
  if (!data) return;
  const uris = (data.getData('application/vnd.code.uri-list') || data.getData('text/uri-list'))
    .split(/\r?\n/)
    .filter((uri) => /^(file|vscode-remote):/.test(uri));
  if (uris.length > 0) {
    post({ type: 'dropped', uris });
    return;
  }
  const images = [...data.files].filter((file) => IMAGE_TYPES.includes(file.type));
  if (images.length > 0) {
    addChips(await Promise.all(images.map(imageChip)).then(present));
    return;
  }
  const text = data.getData('text/plain');
  if (text) addToDraft(text, []);
}

async function imageChip(file: File): Promise<Chip | undefined> {
  if (file.size > MAX_IMAGE) {
    post({ type: 'problem', what: l10n.t('{0} is too large to attach.', file.name) });
    return undefined;
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = '';
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  const block = { type: 'image' as const, data: btoa(binary), mimeType: file.type };
  return { id: newId('image'), label: file.name || l10n.t('Image'), icon: 'image', block };
}

function present(chips: readonly (Chip | undefined)[]): readonly Chip[] {
  return chips.filter((chip) => chip !== undefined);
}
