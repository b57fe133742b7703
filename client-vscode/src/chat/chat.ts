/** The session in view: carries the wire to the view and the user's acts to the wire. It decides nothing. */

import * as vscode from 'vscode';
import type { FromView, ModelState } from '../../webview/messages.ts';
import { Asks } from '../approvals/agentQuestions.ts';
import type { Approvals } from '../approvals/approvals.ts';
import { codeOf, messageOf, tellFailure, watched } from '../errors.ts';
import { ErrorCode, type Mode, type Session, type UpdateParams } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import type { Server } from '../server/server.ts';
import type { Sessions } from '../sessions/sessionTree.ts';
import { composed } from './attachments.ts';
import { Batch } from './batch.ts';
import { type View, words } from './chatView.ts';
import type { Drafts } from './drafts.ts';
import { Queue } from './promptQueue.ts';
import { Sending } from './promptSender.ts';
import { Elsewhere } from './remoteSession.ts';
import { undoTurn } from './undo.ts';

const PAGE = 200;
const RECENT = 5;
const CURRENT = 'pilotfish.session';

/** What the view asks for that is no matter of a session; commands.ts has it. */
export type Other = (message: FromView) => Promise<void>;

export class Chat implements vscode.Disposable {
  private readonly batch: Batch;
  private readonly asks: Asks;
  private readonly queue: Queue;
  private readonly sending: Sending;
  private readonly elsewhere: Elsewhere;
  private opening: Promise<void> | undefined;
  /** how often a session was asked for */
  private opened = 0;
  private readonly moved = new vscode.EventEmitter<void>();
  /** another session, or the same one changed */
  readonly onDidChange = this.moved.event;
  session: Session | null = null;
  context: { used: number; window?: number } | null = null;
  /** the mode of a session that is not there yet */
  mode: Mode;
  model: ModelState | undefined;

  constructor(
    private readonly storage: vscode.Memento,
    readonly view: View,
    private readonly connection: Connection,
    private readonly server: Server,
    private readonly approvals: Approvals,
    private readonly sessions: Sessions,
    private readonly drafts: Drafts,
    private readonly log: vscode.LogOutputChannel,
    private readonly other: Other,
  ) {
    this.mode = vscode.workspace.getConfiguration('pilotfish').get<Mode>('mode', 'ask');
    this.batch = new Batch(view);
    const showSession = async (sessionId: string) => {
      if (sessionId !== this.session?.id) await this.open(sessionId);
      await view.reveal(true);
    };
    this.asks = new Asks(connection, view, showSession, log);
    this.queue = new Queue(
      connection,
      view,
      this.batch,
      drafts,
      () => this.session,
      (error) => tellFailure(error, log),
    );
    this.elsewhere = new Elsewhere((sessionId) => this.look(sessionId), log);
    this.sending = new Sending(this, connection, view, this.batch, this.queue, drafts, log);
    connection.on('pilotfish/session/update', (params) => this.update(params));
    view.onDidReceive((message) => {
      watched(this.receive(message), log, message.type);
    });
    view.onDidHide(() => approvals.setInSight([], null));
    this.asks.onDidChange(() => this.showWaiting());
    approvals.onDidAsk((request) => view.post({ type: 'approval', request, at: Date.now() }));
    approvals.onDidResolve((resolved) => view.post({ type: 'resolved', resolved }));
    approvals.onDidRefuse((refused) => {
      view.post({ type: 'answerRefused', ...refused });
      if (!approvals.isInSight(refused.approvalId)) void vscode.window.showWarningMessage(refused.message);
    });
    approvals.onDidChange(() => this.showWaiting());
    sessions.onDidList((list) => view.post({ type: 'recent', sessions: list.slice(0, RECENT) }));
    server.onDidChange((state) => view.post({ type: 'server', server: state }));
    server.onDidCrash(() => this.crashed());
  }

  /** A turn runs here: what runs in another window is not ours to stop. */
  get busy(): boolean {
    return this.session?.busy === true && !this.session.elsewhere;
  }

  dispose(): void {
    this.elsewhere.dispose();
    this.batch.dispose();
    this.asks.dispose();
    this.moved.dispose();
  }

  /** The server is there: what the view must know of it, and the session that was open last. */
  async connected(): Promise<void> {
    const last = this.session?.id ?? this.storage.get<string>(CURRENT);
    await Promise.all([this.sessions.load(), this.open(last ?? null), this.tellCommands()]);
  }

  /** The last that was asked for is the one that is shown, whichever the server gives first. */
  open(sessionId: string | null): Promise<void> {
    this.opening = this.openNow(sessionId);
    return this.opening;
  }

  async settled(): Promise<void> {
    for (let last: Promise<void> | undefined; last !== this.opening; ) {
      last = this.opening;
      await last;
    }
  }

  /** The first prompt made a session: unless the user has gone elsewhere meanwhile, it is the one in view. */
  async began(session: Session): Promise<void> {
    this.sessions.noted(session);
    await this.settled();
    if (this.session) return;
    await this.storage.update(CURRENT, session.id);
    this.become(session);
    this.view.post({ type: 'began', session });
  }

  private async openNow(sessionId: string | null): Promise<void> {
    this.opened += 1;
    const mine = this.opened;
    this.batch.flush();
    this.view.post({ type: 'opening', sessionId, draft: this.drafts.get(sessionId), mode: this.mode });
    await this.storage.update(CURRENT, sessionId ?? undefined);
    if (sessionId === null) {
      if (mine === this.opened) this.become(null);
      return;
    }
    try {
      const [loaded, { prompts }] = await Promise.all([
        this.connection.request('pilotfish/session/load', { sessionId, limit: PAGE }),
        this.connection.request('pilotfish/queue/list', { sessionId }),
      ]);
      this.approvals.adopt(loaded.pendingApprovals);
      if (mine !== this.opened) return;
      this.become(loaded.session);
      this.view.post({
        type: 'loaded',
        page: loaded,
        queue: prompts,
        draft: this.drafts.get(sessionId),
        at: Date.now(),
      });
      this.sessions.noted(loaded.session);
      this.elsewhere.watch(loaded.session);
    } catch (error) {
      if (mine !== this.opened) return;
      if (codeOf(error) === ErrorCode.unknown_session) {
        await this.openNow(null);
        return;
      }
      // What is written now belongs to no session that anybody sees.
      this.become(null);
      this.log.error(`open ${sessionId}: ${messageOf(error)}`);
      this.view.post({ type: 'openFailed', sessionId, message: messageOf(error) });
    }
  }

  async lookAt(): Promise<void> {
    const seen = this.session && (await this.look(this.session.id));
    if (seen) this.elsewhere.watch(seen);
  }

  /** The session in view, read once more. */
  private async look(sessionId: string): Promise<Session | undefined> {
    if (this.session?.id !== sessionId || !this.view.isVisible) return undefined;
    const page = await this.connection.request('pilotfish/session/load', { sessionId, limit: PAGE });
    if (this.session?.id !== sessionId) return undefined;
    this.become(page.session);
    this.view.post({ type: 'refreshed', page, at: Date.now() });
    return page.session;
  }

  /** The session changed by our own request. */
  noted(session: Session): void {
    this.sessions.noted(session);
    if (session.id !== this.session?.id) return;
    this.become(session);
    this.view.post({ type: 'session', session });
  }

  setModel(model: ModelState): void {
    this.model = model;
    this.view.post({ type: 'model', model });
    this.moved.fire();
  }

  setMode(mode: Mode): void {
    this.mode = mode;
    this.view.post({ type: 'mode', mode });
    this.moved.fire();
  }

  async stop(): Promise<void> {
    this.sending.stop();
    if (this.session) await this.connection.request('pilotfish/session/cancel', { sessionId: this.session.id });
  }

  async undo(turnId: string | undefined, direction: 'undo' | 'redo', rest: boolean): Promise<void> {
    if (!this.session) return;
    const told = await undoTurn(this.connection, this.session.id, turnId, direction, rest);
    if (told) this.view.post(told);
    else await this.open(this.session.id);
  }

  private async receive(message: FromView): Promise<void> {
    const sessionId = this.session?.id;
    switch (message.type) {
      case 'ready':
        await this.greet();
        return;
      case 'send':
        await this.sending.send(message);
        return;
      case 'resend':
        await this.sending.resend(message);
        return;
      case 'stop':
        await this.stop();
        return;
      case 'forceStop':
        await this.server.restart();
        return;
      case 'retryNow':
        if (sessionId) await this.connection.request('pilotfish/session/retry', { sessionId });
        return;
      case 'stopCall':
        if (sessionId)
          await this.connection.request('pilotfish/session/cancel', { sessionId, toolCallId: message.callId });
        return;
      case 'answer': {
        const { approvalId, type: _, ...answer } = message;
        await this.approvals.answer(approvalId, answer);
        return;
      }
      case 'allowByRule':
        await this.approvals.allowByRule(message.approvalId, message.rule);
        return;
      case 'answerAsk':
        this.asks.answer(message.id, message.answer);
        return;
      case 'visibleCards':
        this.approvals.setInSight(message.approvalIds, message.focused, message.others);
        return;
      case 'undo':
        await this.undo(message.turnId, message.direction, message.rest);
        return;
      case 'older': {
        if (!sessionId) return;
        const older = await this.connection.request('pilotfish/session/load', {
          sessionId,
          before: message.before,
          limit: PAGE,
        });
        this.view.post({ type: 'older', sessionId, items: older.items, hasMore: older.hasMore });
        return;
      }
      case 'reload':
        if (sessionId) await this.open(sessionId);
        return;
      case 'draft':
        this.drafts.keep(message.sessionId, message.draft);
        this.sessions.show();
        return;
      case 'mention': {
        const { mentions } = await this.connection.request('pilotfish/mention/complete', {
          query: message.query,
          limit: 20,
          ...(sessionId && { sessionId }),
        });
        this.view.post({ type: 'mentions', query: message.query, mentions });
        return;
      }
      case 'withdraw':
        await this.queue.withdraw(message.promptId);
        return;
      case 'editQueued':
        await this.queue.withdraw(message.promptId);
        this.view.post({ type: 'compose', ...composed(message.prompt), send: false });
        return;
      case 'steer':
        await this.queue.steer(message.promptId);
        return;
      case 'reorder':
        await this.queue.reorder(message.promptIds);
        return;
      case 'openSession':
        await this.open(message.sessionId);
        return;
      default:
        await this.other(message);
    }
  }

  /** The view is there and knows nothing yet. */
  private async greet(): Promise<void> {
    this.view.post({
      type: 'hello',
      words: words(),
      mac: process.platform === 'darwin',
      trusted: vscode.workspace.isTrusted,
    });
    this.view.post({ type: 'server', server: this.server.state });
    if (this.model) this.view.post({ type: 'model', model: this.model });
    this.view.post({ type: 'recent', sessions: this.sessions.all.slice(0, RECENT) });
    for (const request of this.approvals.open) this.view.post({ type: 'approval', request, at: Date.now() });
    for (const ask of this.asks.open) this.view.post({ type: 'ask', ask });
    try {
      if (this.connection.connected && this.server.state.status === 'ready') {
        await Promise.all([
          this.open(this.session?.id ?? this.storage.get<string>(CURRENT) ?? null),
          this.tellCommands(),
        ]);
      }
    } finally {
      this.view.deliver();
    }
  }

  private async tellCommands(): Promise<void> {
    const { commands } = await this.connection.request('pilotfish/command/list', {});
    this.view.post({ type: 'commands', commands });
  }

  async refresh(sessionId: string): Promise<void> {
    const { session } = await this.connection.request('pilotfish/session/load', { sessionId, limit: 1 });
    this.noted(session);
  }

  private update(params: UpdateParams): void {
    const { update, sessionId } = params;
    if ((update.kind === 'turn_started' || update.kind === 'state') && update.promptId !== undefined) {
      this.drafts.taken(update.promptId);
      this.queue.left(update.promptId);
    }
    if (sessionId !== this.session?.id) return;
    if (update.kind === 'turn_started' || update.kind === 'turn_ended')
      this.become({ ...this.session, busy: update.kind === 'turn_started' });
    if (update.kind === 'session_info') this.become(update.session);
    if (update.kind === 'usage') {
      this.context = {
        used: update.contextUsed,
        ...(update.contextWindow !== undefined && { window: update.contextWindow }),
      };
      this.moved.fire();
    }
    // A new step may have read what was steered.
    if (update.kind === 'state' || update.kind === 'turn_started') this.queue.refresh();
    this.batch.push(params);
  }

  private become(session: Session | null): void {
    if (session?.id !== this.session?.id) {
      this.context = null;
      this.queue.clear();
    }
    this.session = session;
    void vscode.commands.executeCommand('setContext', 'pilotfish.busy', this.busy);
    void vscode.commands.executeCommand('setContext', 'pilotfish.hasSession', session !== null);
    this.moved.fire();
  }

  private crashed(): void {
    this.approvals.clear();
    this.asks.clear();
    if (this.session) this.become({ ...this.session, busy: false });
    this.view.post({ type: 'crashed', at: Date.now() });
  }

  private showWaiting(): void {
    const waiting = this.approvals.open.length;
    void vscode.commands.executeCommand('setContext', 'pilotfish.waiting', waiting > 0);
    this.view.setBadge(waiting + this.asks.open.length);
  }
}
