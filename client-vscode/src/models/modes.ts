/** Lets the user choose the approval mode of a session. */

import * as vscode from 'vscode';
import { modeTitle } from '../../webview/common/format.ts';
import type { Mode } from '../protocol.gen.ts';
import type { Services } from '../services.ts';

/** Changes the mode of the session in view, and of new sessions. */
export async function selectMode({ chat, connection }: Pick<Services, 'chat' | 'connection'>): Promise<void> {
  const modes: readonly [Mode, string][] = [
    ['ask', vscode.l10n.t('Asks before every edit and command.')],
    ['plan', vscode.l10n.t('Reads and plans. Does not change files or run commands.')],
    ['edit', vscode.l10n.t('Edits workspace files without asking. Asks before commands.')],
    ['auto', vscode.l10n.t('Edits and runs commands without asking, unless a rule requires it.')],
  ];
  const picked = await vscode.window.showQuickPick(
    modes.map(([mode, detail]) => ({
      label: modeTitle(mode),
      detail,
      mode,
      ...(mode === chat.mode && { description: vscode.l10n.t('in use') }),
    })),
    { title: vscode.l10n.t('Mode'), placeHolder: vscode.l10n.t('Select what needs your approval') },
  );
  if (!picked) return;
  if (chat.session) {
    const { session } = await connection.request('pilotfish/session/configure', {
      sessionId: chat.session.id,
      mode: picked.mode,
    });
    chat.updateSession(session);
  }
  chat.setNewSessionMode(picked.mode);
}

/** Asks whether to change the mode or the model, for a view that is too narrow to show both pickers. */
export async function configure(services: Pick<Services, 'chat' | 'connection' | 'models'>): Promise<void> {
  const { chat, models } = services;
  const items = [
    { label: vscode.l10n.t('Mode'), description: modeTitle(chat.mode), setting: 'mode' },
    { label: vscode.l10n.t('Model'), description: chat.model?.label ?? '', setting: 'model' },
  ];
  const picked = await vscode.window.showQuickPick(items, { title: 'Pilotfish' });
  if (picked?.setting === 'mode') await selectMode(services);
  else if (picked) await models.select();
}
