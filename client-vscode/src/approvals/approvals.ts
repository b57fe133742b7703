/** The open questions. Card, dock, lens, notification, badge and status item all show what stands here, and the first
 * valid answer, from whichever, is the answer. */

import * as vscode from 'vscode';
import { ResponseError } from 'vscode-languageclient/node';
import type { NewRule } from '../../webview/messages.ts';
import { messageOf } from '../errors.ts';
import { type ApprovalAnswer, type ApprovalRequest, type ApprovalResolved, ErrorCode } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

/** A card must have been in sight this long before a key may answer it, in ms. */
const DEAF = 500;

interface Held {
  request: ApprovalRequest;
  at: number;
  /** answers the server's own request; absent: the question is known from a transcript only */
  reply?: (answer: ApprovalAnswer) => void;
}

/** What the user made of a proposed change. */
export interface Amendment {
  /** the arguments that say it; absent: the call cannot say it */
  args?: Record<string, unknown>;
}

export class Approvals implements vscode.Disposable {
  private readonly held = new Map<string, Held>();
  private inSight = new Map<string, number>();
  private outOfSight: readonly string[] = [];
  private focused: string | null = null;
  private readonly asked = new vscode.EventEmitter<ApprovalRequest>();
  private readonly over = new vscode.EventEmitter<ApprovalResolved>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidAsk = this.asked.event;
  readonly onDidResolve = this.over.event;
  private readonly refused = new vscode.EventEmitter<{ approvalId: string; message: string }>();
  readonly onDidChange = this.changed.event;
  /** an answer that cannot be given; the question still stands */
  readonly onDidRefuse = this.refused.event;
  /** proposals.ts knows; undefined: nothing was changed */
  amendment: (request: ApprovalRequest) => Amendment | undefined = () => undefined;

  constructor(private readonly connection: Connection) {
    connection.answer('pilotfish/approval/request', (request, token) => this.ask(request, token));
    connection.on('pilotfish/approval/resolved', (resolved) => this.resolve(resolved));
  }

  /** Oldest first. */
  get open(): readonly ApprovalRequest[] {
    return [...this.held.values()].map((held) => held.request);
  }

  find(approvalId: string): ApprovalRequest | undefined {
    return this.held.get(approvalId)?.request;
  }

  isInSight(approvalId: string): boolean {
    return this.inSight.has(approvalId);
  }

  /** Whether the chat has said where its card is. */
  isPlaced(approvalId: string): boolean {
    return this.inSight.has(approvalId) || this.outOfSight.includes(approvalId);
  }

  /** Whether a key may answer it: its card is in sight, and has been for a moment. */
  hearsKeys(approvalId: string): boolean {
    const since = this.inSight.get(approvalId);
    return since !== undefined && Date.now() - since >= DEAF;
  }

  /** The question a key is about: that of the card with the focus, else the oldest of the session. */
  current(sessionId: string | undefined): ApprovalRequest | undefined {
    const focused = this.focused === null ? undefined : this.find(this.focused);
    return focused ?? this.open.find((request) => request.sessionId === sessionId) ?? this.open[0];
  }

  /** The chat says which cards a person can see, in which one the focus is, and which others there are. */
  setInSight(approvalIds: readonly string[], focused: string | null, others: readonly string[] = []): void {
    this.focused = focused;
    this.outOfSight = others;
    this.inSight = new Map(approvalIds.map((id) => [id, this.inSight.get(id) ?? Date.now()]));
  }

  /** Questions found in a transcript that no request of the server's holds here. */
  adopt(requests: readonly ApprovalRequest[]): void {
    for (const request of requests) {
      if (this.held.has(request.approvalId)) continue;
      this.held.set(request.approvalId, { request, at: Date.now() });
      this.changed.fire();
    }
  }

  /**
   * Whether this was the answer. A late one says so, and does nothing.
   * What the user wrote into the proposal is what is allowed, on whichever surface it is allowed.
   */
  async answer(approvalId: string, answer: ApprovalAnswer): Promise<boolean> {
    const held = this.held.get(approvalId);
    if (!held) {
      void vscode.window.setStatusBarMessage(vscode.l10n.t('Pilotfish: already answered'), 5000);
      return false;
    }
    const { sessionId } = held.request;
    const allows = answer.optionId.startsWith('allow') && answer.args === undefined;
    const amended = allows ? this.amendment(held.request) : undefined;
    if (amended && !amended.args) {
      const message = vscode.l10n.t('Your changes cannot be part of this call. Discard them, or deny it.');
      this.refused.fire({ approvalId, message });
      return false;
    }
    const whole = amended?.args ? { ...answer, args: amended.args } : answer;
    const answered = { approvalId, sessionId, optionId: answer.optionId, by: 'client' };
    if (held.reply) {
      this.drop(answered);
      held.reply(whole);
      return true;
    }
    try {
      const { accepted } = await this.connection.request('pilotfish/approval/answer', { approvalId, ...whole });
      this.resolve(answered);
      return accepted;
    } catch (error) {
      this.refused.fire({ approvalId, message: messageOf(error) });
      return false;
    }
  }

  /** The rule first: a question is never allowed by a rule that could not be saved. */
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

  /** The server is gone, and its questions with it. */
  clear(): void {
    for (const { request } of [...this.held.values()]) {
      this.drop({ approvalId: request.approvalId, sessionId: request.sessionId, optionId: 'cancelled', by: 'server' });
    }
  }

  dispose(): void {
    this.asked.dispose();
    this.refused.dispose();
    this.over.dispose();
    this.changed.dispose();
  }

  private ask(request: ApprovalRequest, token: vscode.CancellationToken): Promise<ApprovalAnswer> {
    return new Promise((reply, reject) => {
      this.held.set(request.approvalId, { request, at: Date.now(), reply });
      token.onCancellationRequested(() => {
        this.resolve({
          approvalId: request.approvalId,
          sessionId: request.sessionId,
          optionId: 'cancelled',
          by: 'server',
        });
        reject(new ResponseError(ErrorCode.cancelled, 'cancelled'));
      });
      this.asked.fire(request);
      this.changed.fire();
    });
  }

  private resolve(resolved: ApprovalResolved): void {
    if (this.held.has(resolved.approvalId)) this.drop(resolved);
  }

  private drop(resolved: ApprovalResolved): void {
    this.held.delete(resolved.approvalId);
    this.inSight.delete(resolved.approvalId);
    this.over.fire(resolved);
    this.changed.fire();
  }
}
