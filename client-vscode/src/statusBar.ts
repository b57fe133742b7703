/** The status bar item with its menu, and the status dialog. */

import * as vscode from 'vscode';
import { modelName, modeTitle } from '../webview/common/format.ts';
import { showWaiting } from './approvals/approvalCommands.ts';
import type { Waiting } from './approvals/waiting.ts';
import type { Chat } from './chat/chat.ts';
import type { CompletionStatus } from './protocol.gen.ts';
import type { Server } from './server/server.ts';
import type { Services } from './services.ts';
import type { FinishedTurns } from './sessions/finishedTurns.ts';
import { pick, type StatusContent, StatusItem, showDialog } from './widgets.ts';

/** Shows what waits for the user first, then sessions with unread results, otherwise the model, the mode and the context usage. */
export class StatusBar implements vscode.Disposable {
  private readonly item = new StatusItem('pilotfish.status', 'Pilotfish', 'pilotfish.menu', 90);
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly server: Server,
    private readonly chat: Chat,
    private readonly waiting: Waiting,
    private readonly finished: FinishedTurns,
  ) {
    this.subscriptions = [
      this.item,
      server.onDidChange(() => this.render()),
      chat.onDidChange(() => this.render()),
      waiting.onDidChange(() => this.render()),
      finished.onDidChange(() => this.render()),
    ];
    this.render();
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  private render(): void {
    this.item.show(this.content());
  }

  private content(): StatusContent {
    const { items } = this.waiting;
    const { state } = this.server;
    if (items.length > 0) {
      return {
        icon: 'question',
        text: vscode.l10n.t('Pilotfish: {0} waiting', items.length),
        tooltip: items.map((item) => item.title),
        background: 'warning',
      };
    }
    const tooltip = this.tooltip();
    switch (state.status) {
      case 'ready':
        if (this.chat.busy) return { icon: 'loading~spin', text: this.readyText(), tooltip };
        if (this.finished.count > 0)
          return {
            icon: 'comment-unread',
            text: vscode.l10n.t('Pilotfish: {0} finished', this.finished.count),
            tooltip,
          };
        return { icon: 'comment-discussion', text: this.readyText(), tooltip };
      case 'starting':
        return { icon: 'loading~spin', text: 'Pilotfish', tooltip };
      case 'installing':
        return { icon: 'loading~spin', text: vscode.l10n.t('Installing Pilotfish: {0}%', state.percent), tooltip };
      case 'absent':
        return { icon: 'comment-discussion', text: 'Pilotfish', tooltip };
      case 'restarting':
      case 'missing':
        return { icon: 'warning', text: 'Pilotfish', tooltip };
      case 'stopped':
        return { icon: 'error', text: 'Pilotfish', tooltip, background: 'error' };
      default:
        return state satisfies never;
    }
  }

  private readyText(): string {
    const model = this.chat.session?.model ?? this.chat.model?.current;
    const parts = [model === undefined ? 'Pilotfish' : modelName(model), modeTitle(this.chat.mode)];
    const { context } = this.chat;
    if (context?.window !== undefined && context.used > 0)
      parts.push(`${Math.round((context.used / context.window) * 100)}%`);
    return parts.join(' · ');
  }

  private tooltip(): readonly string[] {
    const { state } = this.server;
    const lines = ['Pilotfish'];
    if (state.status === 'ready') lines.push(vscode.l10n.t('Server {0}', state.version));
    if ('reason' in state) lines.push(state.reason);
    if (this.chat.session) lines.push(this.chat.session.title || vscode.l10n.t('Untitled'));
    const { context } = this.chat;
    if (context?.window !== undefined)
      lines.push(vscode.l10n.t('Context: {0} of {1} tokens', context.used, context.window));
    return lines;
  }
}

/** The menu of the status bar item. */
export async function showMenu(services: Services): Promise<void> {
  const { waiting, finished, sessions, chat, server } = services;
  const entry = (icon: string, label: string, command: string) => ({ icon, label, command });
  const items = [
    ...waiting.items.map((item) => ({
      icon: 'question',
      label: item.title,
      description: vscode.l10n.t('waiting'),
      item,
    })),
    ...sessions.all
      .filter(({ id }) => finished.isUnread(id))
      .map(({ id, title }) => ({
        icon: 'comment-unread',
        label: title || vscode.l10n.t('Untitled'),
        description: vscode.l10n.t('finished'),
        item: { sessionId: id },
      })),
    ...(chat.busy ? [entry('debug-stop', vscode.l10n.t('Stop'), 'stop')] : []),
    entry('comment-discussion', vscode.l10n.t('Open chat'), 'openChat'),
    entry('add', vscode.l10n.t('New session'), 'newSession'),
    entry('search', vscode.l10n.t('Search sessions…'), 'sessions.search'),
    entry('symbol-event', vscode.l10n.t('Select model…'), 'selectModel'),
    entry('shield', vscode.l10n.t('Select mode…'), 'selectMode'),
    entry('law', vscode.l10n.t('Rules…'), 'rules'),
    entry('plug', vscode.l10n.t('MCP servers…'), 'mcpServers'),
    entry('pulse', vscode.l10n.t('Status'), 'status'),
    entry('output', vscode.l10n.t('Show log'), 'showLog'),
    entry('debug-restart', vscode.l10n.t('Restart server'), 'restart'),
    entry('gear', vscode.l10n.t('Settings'), 'settings'),
  ];
  const reason = 'reason' in server.state ? server.state.reason : undefined;
  const picked = await pick(items, {
    title: 'Pilotfish',
    ...(reason && { placeHolder: reason }),
  });
  if (!picked) return;
  if ('item' in picked) await showWaiting(services, picked.item);
  else await vscode.commands.executeCommand(`pilotfish.${picked.command}`);
}

/** What inline completions have used, which is in no session. */
function completionLines(completions: CompletionStatus | undefined): readonly string[] {
  if (!completions) return [];
  const { requests, inputTokens, outputTokens, cost } = completions.usage;
  const tokens = (inputTokens ?? 0) + (outputTokens ?? 0);
  const used = vscode.l10n.t('{0} requests, {1} tokens', requests ?? 0, tokens);
  return [
    vscode.l10n.t('Inline completion: {0}', completions.model || vscode.l10n.t('off')),
    cost === undefined ? used : `${used}, $${cost.toFixed(4)}`,
  ];
}

/** The version, model, storage and problems of the server, in a dialog. */
export async function showStatus({ connection }: Services): Promise<void> {
  const found = await connection.request('pilotfish/status', {});
  const mcp = found.mcpServers.map((one) => `${one.name}: ${one.state}${one.error ? `, ${one.error}` : ''}`);
  const lines = [
    vscode.l10n.t('Version {0}, {1}', found.version, found.state),
    vscode.l10n.t('Model: {0}', found.model ?? '–'),
    ...completionLines(found.completions),
    vscode.l10n.t('Sessions: {0}', found.store?.location ?? '–'),
    vscode.l10n.t('Sandbox: {0}', found.sandbox ?? '–'),
    vscode.l10n.t('Memory: {0} MB', Math.round(found.memoryBytes / 1e6)),
    ...mcp,
    ...found.problems,
  ];
  await showDialog('info', 'Pilotfish', lines.join('\n'));
}
