/** Notifications for approvals whose card is not visible. Dismissing a notification does not answer the approval. */

import * as vscode from 'vscode';
import { commandNotes, questionTitle, workingDirectory } from '../../webview/common/format.ts';
import { reportRejection } from '../errors.ts';
import type { ApprovalRequest } from '../protocol.gen.ts';
import { plain, showInfo } from '../widgets.ts';
import type { Approvals } from './approvals.ts';

/** How long to collect approvals for one notification, in ms. */
const COLLECT_MS = 800;
/** How long a visible chat may take to render a card, in ms, and how often to check. */
const RENDER_TIMEOUT_MS = 5000;
const RECHECK_MS = 100;
/** Commands up to this length can be judged in one line, so the notification offers to allow them. */
const MAX_LINE = 120;

/**
 * The text of a notification for one approval, and whether it offers to allow the call.
 *
 * It does so only if it shows all that will happen: a short command in one line. A title does not show an edit, not what
 * a tried command changed, and not the arguments of another tool.
 */
export function notificationFor(
  { call, preview }: ApprovalRequest,
  folder: string | undefined,
): { message: string; allow: boolean } {
  if (preview.kind === 'command') {
    const where = workingDirectory(preview.cwd, folder);
    const notes = [...(where === undefined ? [] : [vscode.l10n.t('in {0}', where)]), ...commandNotes(call)];
    const aside = notes.length > 0 ? ` (${notes.join(', ')})` : '';
    const message = `${vscode.l10n.t('Run {0}', preview.command)}${aside}?`;
    if (message.length <= MAX_LINE && plain(message) === message) return { message, allow: !preview.effects };
  }
  const title = questionTitle(call);
  return { message: title.length > MAX_LINE ? `${title.slice(0, MAX_LINE - 1)}…` : title, allow: false };
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
    /** the folder of the session, in which commands usually run */
    private readonly folderOf: (sessionId: string) => string | undefined,
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
    const unseen = [...this.unchecked].filter(([id]) => this.approvals.find(id) && !this.approvals.isVisible(id));
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
    if (sessionId === undefined) return false;
    return Date.now() - since < RENDER_TIMEOUT_MS && this.isSessionVisible(sessionId);
  }

  private async notifyOne(approvalId: string): Promise<void> {
    const request = this.approvals.find(approvalId);
    if (!request) return;
    const { message, allow } = notificationFor(request, this.folderOf(request.sessionId));
    const labels = { allow: vscode.l10n.t('Allow'), deny: vscode.l10n.t('Deny'), show: vscode.l10n.t('Show') };
    const buttons = allow ? [labels.allow, labels.deny, labels.show] : [labels.show, labels.deny];
    const pressed = await showInfo(`Pilotfish: ${message}`, ...buttons);
    if (pressed === labels.allow) await this.answer(approvalId, 'allow_once');
    else if (pressed === labels.deny) await this.answer(approvalId, 'reject');
    else if (pressed === labels.show) await this.show(approvalId);
  }

  private async notifyMany(count: number): Promise<void> {
    const review = vscode.l10n.t('Review');
    const never = vscode.l10n.t("Don't Notify");
    const message = vscode.l10n.t('Pilotfish: {0} approvals waiting', count);
    const pressed = await showInfo(message, review, never);
    if (pressed === never) {
      await vscode.workspace.getConfiguration('pilotfish').update('notify', 'never', vscode.ConfigurationTarget.Global);
    } else if (pressed === review) {
      if (this.approvals.pending.length > 0) await this.showNext();
      else void showInfo(vscode.l10n.t('Already answered'));
    }
  }

  private async answer(approvalId: string, optionId: 'allow_once' | 'reject'): Promise<void> {
    if (!this.approvals.find(approvalId)) {
      void showInfo(vscode.l10n.t('Already answered'));
      return;
    }
    await this.approvals.answer(approvalId, { optionId });
  }
}
