/** The status bar item with its menu, and the status dialog. */

import * as vscode from 'vscode';
import { modelName, modeTitle } from '../webview/common/format.ts';
import { showApproval } from './approvals/approvalCommands.ts';
import type { Approvals } from './approvals/approvals.ts';
import type { Chat } from './chat/chat.ts';
import type { Server } from './server/server.ts';
import type { Services } from './services.ts';

/** Shows pending approvals first, otherwise the model, the mode and the context usage. */
export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('pilotfish.status', vscode.StatusBarAlignment.Right, 90);
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly server: Server,
    private readonly chat: Chat,
    private readonly approvals: Approvals,
  ) {
    this.item.name = 'Pilotfish';
    this.item.command = 'pilotfish.menu';
    this.subscriptions = [
      this.item,
      server.onDidChange(() => this.render()),
      chat.onDidChange(() => this.render()),
      approvals.onDidChange(() => this.render()),
    ];
    this.render();
    this.item.show();
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  private render(): void {
    const waiting = this.approvals.pending.length;
    const { state } = this.server;
    this.item.backgroundColor = undefined;
    if (waiting > 0) {
      this.item.text = `$(question) ${vscode.l10n.t('Pilotfish: {0} waiting', waiting)}`;
      this.item.backgroundColor = new vscode.ThemeColor('statusBarItem.warningBackground');
      this.item.tooltip = this.approvals.pending.map((request) => request.call.title).join('\n');
      return;
    }
    this.item.tooltip = this.tooltip();
    switch (state.status) {
      case 'ready':
        this.item.text = this.readyText();
        return;
      case 'starting':
      case 'installing':
        this.item.text = '$(loading~spin) Pilotfish';
        return;
      case 'restarting':
      case 'missing':
        this.item.text = '$(warning) Pilotfish';
        return;
      case 'stopped':
        this.item.text = '$(error) Pilotfish';
        this.item.backgroundColor = new vscode.ThemeColor('statusBarItem.errorBackground');
        return;
      default:
        state satisfies never;
    }
  }

  private readyText(): string {
    const model = this.chat.session?.model ?? this.chat.model?.current;
    const parts = [model === undefined ? 'Pilotfish' : modelName(model), modeTitle(this.chat.mode)];
    const { context } = this.chat;
    if (context?.window !== undefined && context.used > 0)
      parts.push(`${Math.round((context.used / context.window) * 100)}%`);
    return `${this.chat.busy ? '$(loading~spin)' : '$(comment-discussion)'} ${parts.join(' · ')}`;
  }

  private tooltip(): vscode.MarkdownString {
    const { state } = this.server;
    const lines = ['**Pilotfish**'];
    if (state.status === 'ready') lines.push(vscode.l10n.t('Server {0}', state.version));
    if ('reason' in state) lines.push(state.reason);
    if (this.chat.session) lines.push(this.chat.session.title || vscode.l10n.t('Untitled'));
    const { context } = this.chat;
    if (context?.window !== undefined)
      lines.push(vscode.l10n.t('Context: {0} of {1} tokens', context.used, context.window));
    return new vscode.MarkdownString(lines.map((line) => line.replace(/[<>[\]()`]/g, '\\$&')).join('  \n'));
  }
}

/** The menu of the status bar item. */
export async function showMenu(services: Services): Promise<void> {
  const { approvals, chat, server } = services;
  const entry = (icon: string, label: string, command: string) => ({ label: `$(${icon}) ${label}`, command });
  const items = [
    ...approvals.pending.map((request) => ({
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
  if ('approvalId' in picked) await showApproval(services, picked.approvalId);
  else await vscode.commands.executeCommand(`pilotfish.${picked.command}`);
}

/** The version, model, storage and problems of the server, in a dialog. */
export async function showStatus({ connection }: Services): Promise<void> {
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
