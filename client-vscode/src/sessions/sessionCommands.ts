/** What can be done with a session as a whole: find, open, rename, copy, export, delete. */

import * as vscode from 'vscode';
import { watched } from '../errors.ts';
import type { Session } from '../protocol.gen.ts';
import type { Rooms } from '../services.ts';
import { agoWords } from './sessionTree.ts';

export async function openSession({ chat, view }: Rooms, sessionId: string): Promise<void> {
  await chat.open(sessionId);
  await view.reveal(true);
}

export async function search(rooms: Rooms): Promise<void> {
  const picker = vscode.window.createQuickPick<vscode.QuickPickItem & { session: Session }>();
  picker.title = vscode.l10n.t('Sessions');
  picker.placeholder = vscode.l10n.t('Search titles and texts');
  picker.matchOnDescription = true;
  const item = (session: Session) => ({
    label: session.title || vscode.l10n.t('Untitled'),
    description: agoWords(session.updatedAt),
    session,
    alwaysShow: true,
  });
  picker.items = rooms.sessions.all.map(item);
  let asked = 0;
  const look = async (query: string) => {
    asked += 1;
    const mine = asked;
    picker.busy = true;
    const found = await rooms.sessions.search(query).catch(() => []);
    if (mine !== asked) return;
    picker.busy = false;
    picker.items = found.map(item);
  };
  picker.onDidChangeValue(look);
  // No list has come yet; one that has stays as it is under the user's hand.
  if (picker.items.length === 0) watched(look(''), rooms.log);
  picker.onDidAccept(() => {
    const session = picker.selectedItems[0]?.session;
    picker.hide();
    if (session) watched(openSession(rooms, session.id), rooms.log);
  });
  picker.onDidHide(() => picker.dispose());
  picker.show();
}

export async function rename({ chat, connection }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const title = await vscode.window.showInputBox({
    title: vscode.l10n.t('Rename session'),
    value: session.title,
    validateInput: (text) => (text.trim() === '' ? vscode.l10n.t('A session needs a name.') : undefined),
  });
  if (title === undefined) return;
  chat.noted((await connection.request('pilotfish/session/rename', { sessionId: session.id, title })).session);
}

export async function remove({ chat, connection, drafts, sessions }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const yes = vscode.l10n.t('Delete');
  const question = vscode.l10n.t('Delete "{0}"?', session.title || vscode.l10n.t('Untitled'));
  const detail = vscode.l10n.t('The conversation is deleted for good. Files it changed stay as they are.');
  if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, yes)) !== yes) return;
  await connection.request('pilotfish/session/delete', { sessionId: session.id });
  drafts.forget(session.id);
  if (session.id === chat.session?.id) await chat.open(null);
  await sessions.load();
}

export async function fork({ chat, connection, view }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const { session: copy } = await connection.request('pilotfish/session/fork', { sessionId: session.id });
  await chat.open(copy.id);
  await view.reveal(true);
}

export async function exported({ connection, proposals }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const picked = await vscode.window.showQuickPick(
    [
      { label: 'Markdown', format: 'markdown' as const },
      { label: 'JSON', format: 'json' as const },
    ],
    { title: vscode.l10n.t('Export as') },
  );
  if (!picked) return;
  const { text } = await connection.request('pilotfish/session/export', {
    sessionId: session.id,
    format: picked.format,
  });
  await proposals.showText(text, picked.format);
}
