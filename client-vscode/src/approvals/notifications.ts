/** Notifications for approvals whose card is not visible. Dismissing a notification does not answer the approval. */

import * as vscode from 'vscode';
import { escaped, questionTitle } from '../../webview/common/format.ts';
import { reportRejection } from '../errors.ts';
import type { ApprovalRequest } from '../protocol.gen.ts';
import type { Approvals } from './approvals.ts';

/** How long to collect approvals for one notification, in ms. */
const COLLECT_MS = 800;
/** How long a visible chat may take to render a card, in ms, and how often to check. */
const RENDER_TIMEOUT_MS = 5000;
const RECHECK_MS = 100;
/** Calls up to this length can be judged in one line, so the notification offers to allow them. */
const MAX_LINE = 120;

/** The text of a notification for one approval, and whether it offers to allow the call. */
export function notificationFor(request: ApprovalRequest): { message: string; allow: boolean } {
  const title = questionTitle(request.call);
  const { preview } = request;
  const call = preview.kind === 'command' ? preview.command : request.call.title;
  const isPlain = escaped(call) === call && !call.includes('\n');
  const fits = title.length <= MAX_LINE && call.length <= MAX_LINE;
  const message = title.length > MAX_LINE ? `${title.slice(0, MAX_LINE - 1)}…` : title;
  return { message, allow: isPlain && fits };
}

export class Notifications implements vscode.Disposable {
  /** approval id → when it was requested */
  private unchecked = new Map<string, number>();
  private timer: NodeJS.Timeout | undefined;
  private readonly subscription: vscode.Disposable;

  constructor(
    private readonly approvals: Approvals,
    /** whether the chat is visible and shows this session */
    private readonly isSessionVisible: (sessionId: string) => boolean,
    private readonly show: (approvalId: string) => Promise<void>,
    private readonly showNext: () => Promise<void>,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.subscription = approvals.onDidRequest(({ approvalId }) => {
      this.unchecked.set(approvalId, Date.now());
      this.checkIn(COLLECT_MS);
    });
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.subscription.dispose();
  }

  private checkIn(ms: number): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.check();
    }, ms);
  }

  private check(): void {
    const unseen = [...this.unchecked].filter(([id]) => this.approvals.find(id) && !this.approvals.isCardVisible(id));
    const rendering = unseen.filter(([id, since]) => this.isRendering(id, since));
    this.unchecked = new Map(rendering);
    if (rendering.length > 0) this.checkIn(RECHECK_MS);
    if (vscode.workspace.getConfiguration('pilotfish').get('notify') === 'never') return;
    const missed = unseen.map(([id]) => id).filter((id) => !this.unchecked.has(id));
    if (missed.length > 1) reportRejection(this.notifyMany(missed.length), this.log);
    else if (missed[0] !== undefined) reportRejection(this.notifyOne(missed[0]), this.log);
  }

  /** Whether the visible chat may still be about to render the card, for example on a busy machine. */
  private isRendering(approvalId: string, since: number): boolean {
    const sessionId = this.approvals.find(approvalId)?.sessionId;
    if (sessionId === undefined || this.approvals.isCardRendered(approvalId)) return false;
    return Date.now() - since < RENDER_TIMEOUT_MS && this.isSessionVisible(sessionId);
  }

  private async notifyOne(approvalId: string): Promise<void> {
    const request = this.approvals.find(approvalId);
    if (!request) return;
    const { message, allow } = notificationFor(request);
    const labels = { allow: vscode.l10n.t('Allow'), deny: vscode.l10n.t('Deny'), show: vscode.l10n.t('Show') };
    const buttons = allow ? [labels.allow, labels.deny, labels.show] : [labels.show, labels.deny];
    const pressed = await vscode.window.showInformationMessage(`Pilotfish: ${message}`, ...buttons);
    if (pressed === labels.allow) await this.answer(approvalId, 'allow_once');
    else if (pressed === labels.deny) await this.answer(approvalId, 'reject');
    else if (pressed === labels.show) await this.show(approvalId);
  }

  private async notifyMany(count: number): Promise<void> {
    const review = vscode.l10n.t('Review');
    const never = vscode.l10n.t("Don't Notify");
    const message = vscode.l10n.t('Pilotfish: {0} approvals waiting', count);
    const pressed = await vscode.window.showInformationMessage(message, review, never);
    if (pressed === never) {
      await vscode.workspace.getConfiguration('pilotfish').update('notify', 'never', vscode.ConfigurationTarget.Global);
    } else if (pressed === review) {
      if (this.approvals.pending.length > 0) await this.showNext();
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
