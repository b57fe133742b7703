/** Commands for whole sessions: search, open, rename, copy, export, delete. */

import * as vscode from 'vscode';
import { ago } from '../../webview/common/format.ts';
import { reportRejection } from '../errors.ts';
import type { Session, SessionListResult } from '../protocol.gen.ts';
import type { Services } from '../services.ts';
import { askText, LivePicker, type PickItem, pick, showDialog } from '../widgets.ts';

export async function openSession({ chat, view }: Services, sessionId: string): Promise<void> {
  await chat.open(sessionId);
  await view.reveal(true);
}

export async function searchSessions(services: Services): Promise<void> {
  const picker = new LivePicker<PickItem & { session: Session }>(
    vscode.l10n.t('Sessions'),
    vscode.l10n.t('Search titles and messages'),
    {
      type: (query) => void search(query),
      accept: ({ session }) => {
        picker.hide();
        reportRejection(openSession(services, session.id), services.log);
      },
    },
  );
  const item = (session: Session, found?: string) => ({
    label: session.title || vscode.l10n.t('Untitled'),
    description: ago(session.updatedAt, Date.now()),
    ...(found !== undefined && { detail: found }),
    session,
    alwaysShow: true,
  });
  picker.setItems(services.sessions.all.map((session) => item(session)));
  let searchCount = 0;
  const search = async (query: string) => {
    searchCount += 1;
    const ownCount = searchCount;
    picker.setBusy(true);
    const { sessions, matches = [] }: SessionListResult = await services.sessions
      .search(query)
      .catch(() => ({ sessions: [] }));
    if (ownCount !== searchCount) return;
    picker.setBusy(false);
    const texts = new Map(matches.map((match) => [match.sessionId, match.text]));
    picker.setItems(sessions.map((session) => item(session, texts.get(session.id))));
  };
  // Search at once only if no sessions are loaded yet: a list that is already shown must not change under the pointer.
  if (picker.items.length === 0) reportRejection(search(''), services.log);
  picker.show();
}

export async function renameSession({ chat, connection }: Services, session: Session | null): Promise<void> {
  if (!session) return;
  const title = await askText({
    title: vscode.l10n.t('Rename session'),
    value: session.title,
    validate: (text) => (text.trim() === '' ? vscode.l10n.t('Enter a name for the session.') : undefined),
  });
  if (title === undefined) return;
  chat.updateSession((await connection.request('pilotfish/session/rename', { sessionId: session.id, title })).session);
}

export async function deleteSession(
  { chat, connection, drafts, sessions, finished }: Services,
  session: Session | null,
): Promise<void> {
  if (!session) return;
  const yes = vscode.l10n.t('Delete');
  const question = vscode.l10n.t('Delete "{0}"?', session.title || vscode.l10n.t('Untitled'));
  const detail = vscode.l10n.t('The conversation will be permanently deleted. Files that it changed are not affected.');
  if ((await showDialog('warning', question, detail, yes)) !== yes) return;
  await connection.request('pilotfish/session/delete', { sessionId: session.id });
  drafts.delete(session.id);
  finished.markRead(session.id);
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
  const picked = await pick(
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
