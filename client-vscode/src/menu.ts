/** The status item's menu, and how the server is. */

import * as vscode from 'vscode';
import { showQuestion } from './approvals/approvalCommands.ts';
import type { Rooms } from './services.ts';

export async function menu(rooms: Rooms): Promise<void> {
  const { approvals, chat, server } = rooms;
  const entry = (icon: string, label: string, command: string) => ({ label: `$(${icon}) ${label}`, command });
  const items = [
    ...approvals.open.map((request) => ({
      label: `$(question) ${request.call.title}`,
      description: vscode.l10n.t('waiting'),
      approvalId: request.approvalId,
    })),
    ...(chat.busy ? [entry('debug-stop', vscode.l10n.t('Stop'), 'stop')] : []),
    entry('comment-discussion', vscode.l10n.t('Open chat'), 'openChat'),
    entry('add', vscode.l10n.t('New session'), 'newSession'),
    entry('search', vscode.l10n.t('Search sessions…'), 'sessions.search'),
    entry('symbol-event', vscode.l10n.t('Select model…'), 'selectModel'),
    entry('shield', vscode.l10n.t('Select mode…'), 'selectMode'),
    entry('law', vscode.l10n.t('Rules…'), 'rules'),
    entry('pulse', vscode.l10n.t('Status'), 'status'),
    entry('output', vscode.l10n.t('Show log'), 'showLog'),
    entry('debug-restart', vscode.l10n.t('Restart server'), 'restart'),
    entry('gear', vscode.l10n.t('Settings'), 'settings'),
  ];
  const reason = 'reason' in server.state ? server.state.reason : undefined;
  const picked = await vscode.window.showQuickPick(items, {
    title: 'Pilotfish',
    ...(reason && { placeHolder: reason }),
  });
  if (!picked) return;
  if ('approvalId' in picked) await showQuestion(rooms, picked.approvalId);
  else await vscode.commands.executeCommand(`pilotfish.${picked.command}`);
}

export async function status({ connection }: Rooms): Promise<void> {
  const found = await connection.request('pilotfish/status', {});
  const mcp = found.mcpServers.map((one) => `${one.name}: ${one.state}${one.error ? `, ${one.error}` : ''}`);
  const lines = [
    vscode.l10n.t('Version {0}, {1}', found.version, found.state),
    vscode.l10n.t('Model: {0}', found.model ?? '–'),
    vscode.l10n.t('Sessions: {0}', found.store?.location ?? '–'),
    vscode.l10n.t('Sandbox: {0}', found.sandbox ?? '–'),
    vscode.l10n.t('Memory: {0} MB', Math.round(found.memoryBytes / 1e6)),
    ...mcp,
    ...found.problems,
  ];
  await vscode.window.showInformationMessage('Pilotfish', { modal: true, detail: lines.join('\n') });
}
