/**
 * The pending approvals of all sessions, and the only place where they are kept.
 *
 * The card, the dock, the code lens, the notification, the badge and the status bar item all show this list. The first
 * valid answer from any of them counts.
 */

import * as vscode from 'vscode';
import { ResponseError } from 'vscode-languageclient/node';
import type { NewRule } from '../../webview/messages.ts';
import { messageOf } from '../errors.ts';
import { type ApprovalAnswer, type ApprovalRequest, type ApprovalResolved, ErrorCode } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { flashStatus } from '../widgets.ts';

/** How long a card must be visible before a keyboard shortcut may answer it, in ms. */
const KEY_DELAY_MS = 500;

interface PendingApproval {
  request: ApprovalRequest;
  /** answers the server's own request; absent if the approval is known only from a loaded transcript */
  reply?: (answer: ApprovalAnswer) => void;
}

/** The user's changes to a proposal. */
export interface Amendment {
  /** the changed call arguments; absent if the call cannot express the changes */
  args?: Record<string, unknown>;
}

export class Approvals implements vscode.Disposable {
  private readonly entries = new Map<string, PendingApproval>();
  /** the approval whose card is visible, and since when */
  private card: { approvalId: string; since: number } | undefined;
  /** approvals that the chat lists beside the card */
  private listed: readonly string[] = [];
  /** turns whose edits the user has allowed as a whole */
  private readonly allowedTurns = new Set<string>();
  private readonly added = new vscode.EventEmitter<ApprovalRequest>();
  private readonly requested = new vscode.EventEmitter<ApprovalRequest>();
  private readonly resolved = new vscode.EventEmitter<ApprovalResolved>();
  private readonly refused = new vscode.EventEmitter<{ approvalId: string; message: string }>();
  private readonly changed = new vscode.EventEmitter<void>();
  /** an approval became pending, requested by the server or found in a transcript */
  readonly onDidAdd = this.added.event;
  /** the server requested an approval */
  readonly onDidRequest = this.requested.event;
  readonly onDidResolve = this.resolved.event;
  /** an answer could not be given; the approval is still pending */
  readonly onDidRefuse = this.refused.event;
  readonly onDidChange = this.changed.event;
  /** the user's changes to the proposal, or undefined if there are none; set by `Proposals` */
  amendment: (request: ApprovalRequest) => Amendment | undefined = () => undefined;

  constructor(private readonly connection: Connection) {
    connection.answer('pilotfish/approval/request', (request, token) => this.handleRequest(request, token));
    connection.on('pilotfish/approval/resolved', (resolved) => this.remove(resolved));
  }

  /** Oldest first. */
  get pending(): readonly ApprovalRequest[] {
    return [...this.entries.values()].map(({ request }) => request);
  }

  find(approvalId: string): ApprovalRequest | undefined {
    return this.entries.get(approvalId)?.request;
  }

  isCardVisible(approvalId: string): boolean {
    return this.card?.approvalId === approvalId;
  }

  /** Whether the chat shows the approval, as its card or in the list beside the card. */
  isVisible(approvalId: string): boolean {
    return this.isCardVisible(approvalId) || this.listed.includes(approvalId);
  }

  /** Whether a keyboard shortcut may answer the approval: its card has been visible for `KEY_DELAY_MS`. */
  acceptsKeys(approvalId: string): boolean {
    return this.card?.approvalId === approvalId && Date.now() - this.card.since >= KEY_DELAY_MS;
  }

  /** The approval that a keyboard shortcut answers: the visible card, else the oldest of the session, else the oldest. */
  current(sessionId: string | undefined): ApprovalRequest | undefined {
    const visible = this.card && this.find(this.card.approvalId);
    return visible ?? this.pending.find((request) => request.sessionId === sessionId) ?? this.pending[0];
  }

  /** Called when the chat reports which card is visible and which approvals it lists. */
  setCards(current: string | null, listed: readonly string[]): void {
    this.listed = listed;
    if (current === null) this.card = undefined;
    else if (this.card?.approvalId !== current) this.card = { approvalId: current, since: Date.now() };
  }

  /**
   * Takes over the pending approvals of a loaded transcript.
   *
   * Approvals that the server requested from this client stay, even if the transcript was read before them.
   */
  sync(sessionId: string, requests: readonly ApprovalRequest[]): void {
    const listed = new Set(requests.map(({ approvalId }) => approvalId));
    for (const { request, reply } of [...this.entries.values()]) {
      if (request.sessionId === sessionId && !reply && !listed.has(request.approvalId)) this.cancel(request);
    }
    for (const request of requests) {
      if (this.entries.has(request.approvalId)) continue;
      this.entries.set(request.approvalId, { request });
      this.added.fire(request);
      this.changed.fire();
    }
  }

  /**
   * Answers an approval. Returns false if it was already answered or the answer was refused.
   *
   * If the user changed the proposal in the diff editor, allowing it allows the changed version.
   */
  async answer(approvalId: string, answer: ApprovalAnswer): Promise<boolean> {
    const entry = this.entries.get(approvalId);
    if (!entry) {
      flashStatus(vscode.l10n.t('Pilotfish: already answered'), 5000);
      return false;
    }
    const { sessionId } = entry.request;
    const mayBeAmended = answer.optionId.startsWith('allow') && answer.args === undefined;
    const amendment = mayBeAmended ? this.amendment(entry.request) : undefined;
    if (amendment && !amendment.args) {
      const message = vscode.l10n.t(
        'Your changes cannot be applied to this tool call. Discard your changes or deny the call.',
      );
      this.refused.fire({ approvalId, message });
      return false;
    }
    const amendedAnswer = amendment?.args ? { ...answer, args: amendment.args } : answer;
    const resolved = { approvalId, sessionId, optionId: answer.optionId, by: 'client' };
    if (entry.reply) {
      this.remove(resolved);
      entry.reply(amendedAnswer);
      return true;
    }
    try {
      const { accepted } = await this.connection.request('pilotfish/approval/answer', { approvalId, ...amendedAnswer });
      this.remove(resolved);
      return accepted;
    } catch (error) {
      this.refused.fire({ approvalId, message: messageOf(error) });
      return false;
    }
  }

  /** Saves a rule and then allows the approval. If the rule cannot be saved, the approval stays pending. */
  async allowByRule(approvalId: string, rule: NewRule): Promise<void> {
    const request = this.find(approvalId);
    if (!request) return;
    try {
      const { sessionId } = request;
      await this.connection.request('pilotfish/rule/add', { decision: 'allow', ...rule, sessionId });
    } catch (error) {
      this.refused.fire({ approvalId, message: messageOf(error) });
      return;
    }
    await this.answer(approvalId, { optionId: 'allow_once' });
  }

  /** Allows this edit and the other edits of its turn, now and until the turn ends, where the server would allow that. */
  async allowTurnEdits(approvalId: string): Promise<void> {
    const request = this.find(approvalId);
    if (!request) return;
    this.allowedTurns.add(request.turnId);
    for (const one of this.pending) {
      if (one === request || this.isAllowedEdit(one)) await this.answer(one.approvalId, { optionId: 'allow_once' });
    }
  }

  /** Removes the approvals of a turn that has ended. */
  endTurn(turnId: string): void {
    this.allowedTurns.delete(turnId);
    for (const request of this.pending) if (request.turnId === turnId) this.cancel(request);
  }

  /** Removes all approvals, because the server is gone. */
  clear(): void {
    for (const request of this.pending) this.cancel(request);
  }

  dispose(): void {
    this.added.dispose();
    this.requested.dispose();
    this.resolved.dispose();
    this.refused.dispose();
    this.changed.dispose();
  }

  /** The server offers `allow_session` only for calls that may be allowed without being seen. */
  private isAllowedEdit({ turnId, preview, options }: ApprovalRequest): boolean {
    const mayBeUnseen = options.some(({ id }) => id === 'allow_session');
    return this.allowedTurns.has(turnId) && preview.kind === 'diff' && mayBeUnseen;
  }

  private handleRequest(request: ApprovalRequest, token: vscode.CancellationToken): Promise<ApprovalAnswer> {
    if (this.isAllowedEdit(request)) return Promise.resolve({ optionId: 'allow_once' });
    return new Promise((reply, reject) => {
      this.entries.set(request.approvalId, { request, reply });
      token.onCancellationRequested(() => {
        this.cancel(request);
        reject(new ResponseError(ErrorCode.cancelled, 'cancelled'));
      });
      this.added.fire(request);
      this.requested.fire(request);
      this.changed.fire();
    });
  }

  private cancel({ approvalId, sessionId }: ApprovalRequest): void {
    this.remove({ approvalId, sessionId, optionId: 'cancelled', by: 'server' });
  }

  private remove(resolved: ApprovalResolved): void {
    if (!this.entries.delete(resolved.approvalId)) return;
    if (this.card?.approvalId === resolved.approvalId) this.card = undefined;
    this.resolved.fire(resolved);
    this.changed.fire();
  }
}
