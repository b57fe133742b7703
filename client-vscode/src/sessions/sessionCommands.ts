/** Commands for whole sessions: search, open, rename, copy, export, delete. */

import * as vscode from 'vscode';
import { ago } from '../../webview/common/format.ts';
import { reportRejection } from '../errors.ts';
import type { Session } from '../protocol.gen.ts';
import type { Services } from '../services.ts';

export async function openSession({ chat, view }: Services, sessionId: string): Promise<void> {
  await chat.open(sessionId);
  await view.reveal(true);
}

export async function searchSessions(services: Services): Promise<void> {
  const picker = vscode.window.createQuickPick<vscode.QuickPickItem & { session: Session }>();
  picker.title = vscode.l10n.t('Sessions');
  picker.placeholder = vscode.l10n.t('Search titles and messages');
  picker.matchOnDescription = true;
  const item = (session: Session) => ({
    label: session.title || vscode.l10n.t('Untitled'),
    description: ago(session.updatedAt, Date.now()),
    session,
    alwaysShow: true,
  });
  picker.items = services.sessions.all.map(item);
  let searchCount = 0;
  const search = async (query: string) => {
    searchCount += 1;
    const ownCount = searchCount;
    picker.busy = true;
    const found = await services.sessions.search(query).catch(() => []);
    if (ownCount !== searchCount) return;
    picker.busy = false;
    picker.items = found.map(item);
  };
  picker.onDidChangeValue(search);
  // Search at once only if no sessions are loaded yet: a list that is already shown must not change under the pointer.
  if (picker.items.length === 0) reportRejection(search(''), services.log);
  picker.onDidAccept(() => {
    const session = picker.selectedItems[0]?.session;
    picker.hide();
    if (session) reportRejection(openSession(services, session.id), services.log);
  });
  picker.onDidHide(() => picker.dispose());
  picker.show();
}

export async function renameSession({ chat, connection }: Services, session: Session | null): Promise<void> {
  if (!session) return;
  const title = await vscode.window.showInputBox({
    title: vscode.l10n.t('Rename session'),
    value: session.title,
    validateInput: (text) => (text.trim() === '' ? vscode.l10n.t('Enter a name for the session.') : undefined),
  });
  if (title === undefined) return;
  chat.updateSession((await connection.request('pilotfish/session/rename', { sessionId: session.id, title })).session);
}

export async function deleteSession(
  { chat, connection, drafts, sessions }: Services,
  session: Session | null,
): Promise<void> {
  if (!session) return;
  const yes = vscode.l10n.t('Delete');
  const question = vscode.l10n.t('Delete "{0}"?', session.title || vscode.l10n.t('Untitled'));
  const detail = vscode.l10n.t('The conversation will be permanently deleted. Files that it changed are not affected.');
  if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, yes)) !== yes) return;
  await connection.request('pilotfish/session/delete', { sessionId: session.id });
  drafts.delete(session.id);
  if (session.id === chat.session?.id) await chat.open(null);
  await sessions.load();
}

export async function copySession({ chat, connection, view }: Services, session: Session | null): Promise<void> {
  if (!session) return;
  const { session: copy } = await connection.request('pilotfish/session/fork', { sessionId: session.id });
  await chat.open(copy.id);
  await view.reveal(true);
}

export async function exportSession({ connection, proposals }: Services, session: Session | null): Promise<void> {
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
