/** Notifications for questions nobody can see. A shortcut, never the authority: dismissing one answers nothing. */

import * as vscode from 'vscode';
import { escaped, questionTitle } from '../../webview/common/format.ts';
import { watched } from '../errors.ts';
import type { ApprovalRequest } from '../protocol.gen.ts';
import type { Approvals } from './approvals.ts';

/** Questions that come together are told together, in ms. */
const TOGETHER = 800;
/** How long a chat in view may take to show a card, in ms, and how often that is looked at. */
const PATIENCE = 5000;
const LOOK_AGAIN = 100;
/** What can be judged in one line may be allowed from one. */
const ONE_LINE = 120;

/** What a notification about one question says, and whether it may offer to allow it. */
export function notificationFor(request: ApprovalRequest): { message: string; allow: boolean } {
  const title = questionTitle(request.call);
  const { preview } = request;
  const whole = preview.kind === 'command' ? preview.command : request.call.title;
  const plain = escaped(whole) === whole && !whole.includes('\n');
  const fits = title.length <= ONE_LINE && whole.length <= ONE_LINE;
  const message = title.length > ONE_LINE ? `${title.slice(0, ONE_LINE - 1)}…` : title;
  return { message, allow: plain && fits };
}

export class Notifications implements vscode.Disposable {
  /** question → when it came */
  private fresh = new Map<string, number>();
  private timer: NodeJS.Timeout | undefined;
  private readonly subscription: vscode.Disposable;

  constructor(
    private readonly approvals: Approvals,
    /** whether a chat that shows this session is in view */
    private readonly isInView: (sessionId: string) => boolean,
    private readonly show: (approvalId: string) => Promise<void>,
    private readonly showFirst: () => Promise<void>,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.subscription = approvals.onDidAsk((request) => this.noted(request.approvalId));
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.subscription.dispose();
  }

  private noted(approvalId: string): void {
    this.fresh.set(approvalId, Date.now());
    this.lookIn(TOGETHER);
  }

  private lookIn(wait: number): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.look();
    }, wait);
  }

  private look(): void {
    const unseen = [...this.fresh].filter(([id]) => this.approvals.find(id) && !this.approvals.isInSight(id));
    const coming = unseen.filter(([id, since]) => this.isComing(id, since));
    this.fresh = new Map(coming);
    if (coming.length > 0) this.lookIn(LOOK_AGAIN);
    if (vscode.workspace.getConfiguration('pilotfish').get('notify') === 'never') return;
    const missed = unseen.map(([id]) => id).filter((id) => !this.fresh.has(id));
    if (missed.length > 1) watched(this.tellMany(missed), this.log);
    else if (missed[0] !== undefined) watched(this.tellOne(missed[0]), this.log);
  }

  /** Whether the chat in view may still be about to show it: a busy machine takes its time. */
  private isComing(approvalId: string, since: number): boolean {
    const sessionId = this.approvals.find(approvalId)?.sessionId;
    if (sessionId === undefined || this.approvals.isPlaced(approvalId)) return false;
    return Date.now() - since < PATIENCE && this.isInView(sessionId);
  }

  private async tellOne(approvalId: string): Promise<void> {
    const request = this.approvals.find(approvalId);
    if (!request) return;
    const { message, allow } = notificationFor(request);
    const words = { allow: vscode.l10n.t('Allow'), deny: vscode.l10n.t('Deny'), show: vscode.l10n.t('Show') };
    const buttons = allow ? [words.allow, words.deny, words.show] : [words.show, words.deny];
    const pressed = await vscode.window.showInformationMessage(`Pilotfish: ${message}`, ...buttons);
    if (pressed === words.allow) await this.answer(approvalId, 'allow_once');
    else if (pressed === words.deny) await this.answer(approvalId, 'reject');
    else if (pressed === words.show) await this.show(approvalId);
  }

  private async tellMany(approvalIds: readonly string[]): Promise<void> {
    const review = vscode.l10n.t('Review');
    const never = vscode.l10n.t("Don't Notify");
    const message = vscode.l10n.t('Pilotfish: {0} approvals waiting', approvalIds.length);
    const pressed = await vscode.window.showInformationMessage(message, review, never);
    if (pressed === never) {
      await vscode.workspace.getConfiguration('pilotfish').update('notify', 'never', vscode.ConfigurationTarget.Global);
    } else if (pressed === review) {
      if (this.approvals.open.length > 0) await this.showFirst();
      else void vscode.window.showInformationMessage(vscode.l10n.t('Already answered'));
    }
  }

  private async answer(approvalId: string, optionId: 'allow_once' | 'reject'): Promise<void> {
    if (!this.approvals.find(approvalId)) {
      void vscode.window.showInformationMessage(vscode.l10n.t('Already answered'));
      return;
    }
    await this.approvals.answer(approvalId, { optionId });
  }
}
