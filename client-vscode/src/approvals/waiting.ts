/** What waits for the user: approvals, and the questions that the agent asks in its own words. They count alike. */

import * as vscode from 'vscode';
import type { AgentQuestions } from './agentQuestions.ts';
import type { Approvals } from './approvals.ts';

export interface WaitingItem {
  sessionId: string;
  title: string;
  /** absent for a question in the agent's own words */
  approvalId?: string;
}

export class Waiting implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  private readonly subscriptions: readonly vscode.Disposable[];

  constructor(
    private readonly approvals: Approvals,
    private readonly agentQuestions: AgentQuestions,
  ) {
    this.subscriptions = [
      approvals.onDidChange(() => this.changed.fire()),
      agentQuestions.onDidChange(() => this.changed.fire()),
    ];
  }

  /** Approvals first, oldest first. */
  get items(): readonly WaitingItem[] {
    return [
      ...this.approvals.pending.map(({ sessionId, call, approvalId }) => ({
        sessionId,
        title: call.title,
        approvalId,
      })),
      ...this.agentQuestions.pending.map(({ sessionId, question }) => ({ sessionId, title: question })),
    ];
  }

  /** The number of items of a session. */
  countOf(sessionId: string): number {
    return this.items.filter((item) => item.sessionId === sessionId).length;
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
    this.changed.dispose();
  }
}
