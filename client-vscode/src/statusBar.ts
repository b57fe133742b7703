/** One item in the status bar: model, mode, context, and first of all what waits for the user. */

import * as vscode from 'vscode';
import { modelName } from '../webview/common/format.ts';
import type { Approvals } from './approvals/approvals.ts';
import type { Chat } from './chat/chat.ts';
import type { Mode } from './protocol.gen.ts';
import type { Server } from './server/server.ts';

export class Status implements vscode.Disposable {
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
      server.onDidChange(() => this.show()),
      chat.onDidChange(() => this.show()),
      approvals.onDidChange(() => this.show()),
    ];
    this.show();
    this.item.show();
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  private show(): void {
    const waiting = this.approvals.open.length;
    const { state } = this.server;
    this.item.backgroundColor = undefined;
    if (waiting > 0) {
      this.item.text = `$(question) ${vscode.l10n.t('Pilotfish: {0} waiting', waiting)}`;
      this.item.backgroundColor = new vscode.ThemeColor('statusBarItem.warningBackground');
      this.item.tooltip = this.approvals.open.map((request) => request.call.title).join('\n');
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
    const parts = [
      model === undefined ? 'Pilotfish' : modelName(model),
      modeTitle(this.chat.session?.mode ?? this.chat.mode),
    ];
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

export function modeTitle(mode: Mode): string {
  switch (mode) {
    case 'ask':
      return vscode.l10n.t('Ask first');
    case 'plan':
      return vscode.l10n.t('Plan only');
    case 'edit':
      return vscode.l10n.t('Edit freely');
    case 'auto':
      return vscode.l10n.t('Autonomous');
    default:
      return mode satisfies never;
  }
}
