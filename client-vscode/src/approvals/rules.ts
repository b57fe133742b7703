/** Lists, adds and removes approval rules. */

import * as vscode from 'vscode';
import { reportRejection } from '../errors.ts';
import type { Connection } from '../server/connection.ts';
import type { Services } from '../services.ts';
import { askText, LivePicker, type PickItem, pick, showInfo } from '../widgets.ts';

export async function manageRules({ chat, connection, log }: Services): Promise<void> {
  const sessionId = chat.session ? { sessionId: chat.session.id } : {};
  const { rules: found } = await connection.request('pilotfish/rule/list', sessionId);
  type Item = PickItem & { id?: string };
  const picker = new LivePicker<Item>(
    vscode.l10n.t('Approval rules'),
    vscode.l10n.t('Deny overrides ask, and ask overrides allow'),
    {
      accept: (item) => {
        if (item.id !== undefined) return;
        picker.hide();
        reportRejection(addRule(connection, sessionId), log);
      },
      button: (item) => reportRejection(remove(item), log),
    },
  );
  const trash = { iconPath: new vscode.ThemeIcon('trash'), tooltip: vscode.l10n.t('Remove rule') };
  const icons = { allow: 'check', ask: 'question', deny: 'circle-slash' };
  const add = { label: vscode.l10n.t('Add a rule…'), icon: 'add' };
  picker.setItems([
    ...found.map((rule) => ({
      label: rule.words,
      icon: icons[rule.decision],
      description: rule.scope,
      id: rule.id,
      buttons: [trash],
    })),
    add,
  ]);
  const remove = async (item: Item) => {
    if (item.id === undefined) return;
    await connection.request('pilotfish/rule/remove', { id: item.id, ...sessionId });
    picker.setItems(picker.items.filter((one) => one !== item));
  };
  picker.show();
}

async function addRule(connection: Connection, session: { sessionId?: string }): Promise<void> {
  const title = vscode.l10n.t('Add a rule');
  const picked = await pick(
    [
      { label: vscode.l10n.t('Allow'), decision: 'allow' as const },
      { label: vscode.l10n.t('Ask'), decision: 'ask' as const },
      { label: vscode.l10n.t('Deny'), decision: 'deny' as const },
    ],
    { title },
  );
  if (!picked) return;
  const tool = await askText({
    title,
    prompt: vscode.l10n.t('Tool name, or * for every tool'),
    value: 'bash',
  });
  if (tool === undefined) return;
  const pattern = await askText({
    title,
    prompt: vscode.l10n.t('Pattern for the command or path, for example npm test* or src/**'),
    value: '*',
  });
  if (pattern === undefined) return;
  const { rule } = await connection.request('pilotfish/rule/add', {
    decision: picked.decision,
    tool: tool || '*',
    pattern: pattern || '*',
    scope: 'workspace',
    ...session,
  });
  void showInfo(vscode.l10n.t('Rule saved: {0}', rule.words));
}
