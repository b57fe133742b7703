/** Lets the user choose the approval mode of a session. */

import * as vscode from 'vscode';
import { modeTitle } from '../../webview/common/format.ts';
import type { Mode } from '../protocol.gen.ts';
import type { Services } from '../services.ts';
import { pick } from '../widgets.ts';

/** Changes the mode of the session in view, and of new sessions. */
export async function selectMode({ chat, connection }: Pick<Services, 'chat' | 'connection'>): Promise<void> {
  const modes: readonly [Mode, string][] = [
    ['ask', vscode.l10n.t('Asks before every edit and command.')],
    ['plan', vscode.l10n.t('Reads and plans. Does not change files or run commands.')],
    ['edit', vscode.l10n.t('Edits workspace files without asking. Asks before commands.')],
    ['auto', vscode.l10n.t('Edits and runs commands without asking, unless a rule requires it.')],
  ];
  const picked = await pick(
    modes.map(([mode, detail]) => ({
      label: modeTitle(mode),
      detail,
      mode,
      ...(mode === chat.mode && { description: vscode.l10n.t('in use') }),
    })),
    { title: vscode.l10n.t('Mode'), placeHolder: vscode.l10n.t('Select what needs your approval') },
  );
  if (picked) await setMode({ chat, connection }, picked.mode);
}

/** Leaves plan mode for the mode of the settings, and carries out the plan in the same conversation. */
export async function build(services: Pick<Services, 'chat' | 'connection' | 'view'>): Promise<void> {
  const preferred = vscode.workspace.getConfiguration('pilotfish').get<Mode>('mode', 'ask');
  await setMode(services, preferred === 'plan' ? 'ask' : preferred);
  services.view.post({ type: 'compose', text: vscode.l10n.t('Carry out the plan.'), chips: [], send: true });
}

/** Sets the mode of the session in view and of new sessions. */
async function setMode({ chat, connection }: Pick<Services, 'chat' | 'connection'>, mode: Mode): Promise<void> {
  if (chat.session) {
    const { session } = await connection.request('pilotfish/session/configure', { sessionId: chat.session.id, mode });
    chat.updateSession(session);
  }
  chat.setNewSessionMode(mode);
}

/** Asks whether to change the mode or the model, for a view that is too narrow to show both pickers. */
export async function configure(services: Pick<Services, 'chat' | 'connection' | 'models'>): Promise<void> {
  const { chat, models } = services;
  const items = [
    { label: vscode.l10n.t('Mode'), description: modeTitle(chat.mode), setting: 'mode' },
    { label: vscode.l10n.t('Model'), description: chat.model?.label ?? '', setting: 'model' },
  ];
  const picked = await pick(items, { title: 'Pilotfish' });
  if (picked?.setting === 'mode') await selectMode(services);
  else if (picked) await models.select();
}
