/**
 * The session in view: opens it, sends prompts to it, and forwards its updates to the view.
 *
 * The host owns what it needs without the view: the session, its context usage and the mode of new sessions. The view
 * owns the transcript, which it builds from the pages and updates that pass through here.
 */

import * as vscode from 'vscode';
import type { ContextUsage, FromView, ModelState } from '../../webview/messages.ts';
import type { Approvals } from '../approvals/approvals.ts';
import { codeOf, messageOf, reportFailure } from '../errors.ts';
import {
  type ContentBlock,
  type ContextBlock,
  ErrorCode,
  type Mode,
  type Session,
  type SessionLoadResult,
  type UpdateParams,
} from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import type { SessionTree } from '../sessions/sessionTree.ts';
import { showInfo } from '../widgets.ts';
import { toComposer } from './attachments.ts';
import type { ChatView } from './chatView.ts';
import type { Drafts } from './drafts.ts';
import { PromptQueue } from './promptQueue.ts';
import { PromptSender } from './promptSender.ts';
import { forkAfter, redoTurns, undoTurn } from './turnHistory.ts';

const PAGE_SIZE = 200;
const MAX_MENTIONS = 20;
const LAST_SESSION_KEY = 'pilotfish.session';
const CONTEXT_KEY = 'pilotfish.context';

export class Chat implements vscode.Disposable {
  readonly queue: PromptQueue;
  private readonly sender: PromptSender;
  private opening: Promise<void> | undefined;
  /** grows with every call of `open`, so that a slow load can detect that it is outdated */
  private openCount = 0;
  private readonly changed = new vscode.EventEmitter<void>();
  /** the session in view, its context usage, the model or the mode changed */
  readonly onDidChange = this.changed.event;
  private readonly opened = new vscode.EventEmitter<void>();
  /** the server has opened another session for the view */
  readonly onDidOpen = this.opened.event;
  session: Session | null = null;
  context: ContextUsage | null = null;
  newSessionMode: Mode;
  model: ModelState | undefined;

  constructor(
    private readonly storage: vscode.Memento,
    private readonly view: ChatView,
    private readonly connection: Connection,
    private readonly approvals: Approvals,
    private readonly sessions: SessionTree,
    private readonly drafts: Drafts,
    private readonly log: vscode.LogOutputChannel,
    editorContext: () => ContextBlock,
  ) {
    this.newSessionMode = vscode.workspace.getConfiguration('pilotfish').get<Mode>('mode', 'ask');
    this.queue = new PromptQueue(
      connection,
      view,
      drafts,
      () => this.session,
      (error) => reportFailure(error, log),
    );
    this.sender = new PromptSender(this, connection, view, this.queue, drafts, editorContext, log);
    connection.on('pilotfish/session/update', (params) => this.handleUpdate(params));
  }

  /** Whether a turn runs, here or in another window. */
  get busy(): boolean {
    return this.session?.busy === true;
  }

  get mode(): Mode {
    return this.session?.mode ?? this.newSessionMode;
  }

  dispose(): void {
    this.changed.dispose();
    this.opened.dispose();
  }

  /** Opens a session; null shows an empty chat. If `open` is called again meanwhile, only the last call takes effect. */
  open(sessionId: string | null): Promise<void> {
    return this.openInView(sessionId, false);
  }

  /** Opens the session in view again, or the one that was open when the window closed. */
  openLast(): Promise<void> {
    return this.openInView(this.session?.id ?? this.storage.get<string>(LAST_SESSION_KEY) ?? null, true);
  }

  async whenOpened(): Promise<void> {
    for (let last: Promise<void> | undefined; last !== this.opening; ) {
      last = this.opening;
      await last;
    }
  }

  /** Shows a session that the first prompt created, unless the user opened another session meanwhile. */
  async showCreated(session: Session): Promise<void> {
    this.sessions.upsert(session);
    await this.whenOpened();
    if (this.session) return;
    await this.storage.update(LAST_SESSION_KEY, session.id);
    this.setSession(session);
    this.view.post({ type: 'began', session });
  }

  async reload(): Promise<void> {
    if (this.session) await this.reloadSession(this.session.id);
  }

  async refreshMetadata(sessionId: string): Promise<void> {
    const { session } = await this.connection.request('pilotfish/session/load', { sessionId, limit: 1 });
    this.updateSession(session);
  }

  /** Takes over a session that one of our own requests changed. */
  updateSession(session: Session): void {
    this.sessions.upsert(session);
    if (session.id !== this.session?.id) return;
    this.setSession(session);
    this.view.post({ type: 'session', session });
  }

  setModel(model: ModelState): void {
    this.model = model;
    this.view.post({ type: 'model', model });
    this.changed.fire();
  }

  setNewSessionMode(mode: Mode): void {
    this.newSessionMode = mode;
    this.view.post({ type: 'mode', mode });
    this.changed.fire();
  }

  send(message: Extract<FromView, { type: 'send' }>): Promise<void> {
    return this.sender.send(message);
  }

  resend(message: Extract<FromView, { type: 'resend' }>): Promise<void> {
    return this.sender.resend(message);
  }

  async stop(): Promise<void> {
    this.sender.cancelUnsent();
    if (this.session) await this.connection.request('pilotfish/session/cancel', { sessionId: this.session.id });
  }

  async stopCall(toolCallId: string): Promise<void> {
    if (!this.session) return;
    await this.connection.request('pilotfish/session/cancel', { sessionId: this.session.id, toolCallId });
  }

  /** Skips the rest of the wait before the server asks the provider again. */
  async retryNow(): Promise<void> {
    if (this.session) await this.connection.request('pilotfish/session/retry', { sessionId: this.session.id });
  }

  async undo(turnId: string | undefined, direction: 'undo' | 'redo', skipConflicts: boolean): Promise<void> {
    if (!this.session) return;
    const message = await undoTurn(this.connection, this.session.id, turnId, direction, skipConflicts);
    if (message) this.view.post(message);
    else await this.open(this.session.id);
    const commands = (message?.type === 'undone' && message.result.commands) || [];
    if (commands.length > 0) {
      void showInfo(
        vscode.l10n.t('Pilotfish cannot undo what the commands of this turn did: {0}', commands.join(', ')),
      );
    }
  }

  /** Goes back to the point before a turn: files, and the conversation in a copy. The prompt goes to the composer. */
  async restore(turnId: string, prompt: readonly ContentBlock[]): Promise<void> {
    if (!this.session) return;
    const from = this.session.id;
    const done = await this.connection.request('pilotfish/session/restore', { sessionId: from, turnId });
    await this.open(done.session.id);
    const { turns, changes, refused, commands } = done;
    const files = new Set(changes.map(({ uri }) => uri)).size;
    this.view.post({ type: 'restored', restored: { from, turns, files, refused, commands } });
    this.view.post({ type: 'compose', ...toComposer(prompt), send: false });
  }

  /** Applies the changes of the turns again, oldest first, and opens their session. */
  async redoRestored(sessionId: string, turnIds: readonly string[]): Promise<void> {
    await redoTurns(this.connection, sessionId, turnIds, (text) => this.log.info(text));
    await this.open(sessionId);
  }

  /** Opens a copy of the session that ends after the turn. */
  async fork(turnId: string): Promise<void> {
    if (!this.session) return;
    const copy = await forkAfter(this.connection, this.session.id, turnId);
    await this.open(copy.id);
  }

  async loadOlder(before: string): Promise<void> {
    if (!this.session) return;
    const sessionId = this.session.id;
    const page = await this.connection.request('pilotfish/session/load', { sessionId, before, limit: PAGE_SIZE });
    this.view.post({ type: 'older', sessionId, items: page.items, hasMore: page.hasMore });
  }

  async completeMention(query: string): Promise<void> {
    const { mentions } = await this.connection.request('pilotfish/mention/complete', {
      query,
      limit: MAX_MENTIONS,
      ...(this.session && { sessionId: this.session.id }),
    });
    this.view.post({ type: 'mentions', query, mentions });
  }

  async findMentions(text: string): Promise<void> {
    const { mentions } = await this.connection.request('pilotfish/mention/find', {
      text,
      ...(this.session && { sessionId: this.session.id }),
    });
    this.view.post({ type: 'foundMentions', text, mentions });
  }

  async loadCommands(): Promise<void> {
    const { commands } = await this.connection.request('pilotfish/command/list', {});
    this.view.post({ type: 'commands', commands });
  }

  handleServerCrash(): void {
    if (this.session) this.setSession({ ...this.session, busy: false });
    this.view.post({ type: 'crashed', at: Date.now() });
  }

  private openInView(sessionId: string | null, keepUnsent: boolean): Promise<void> {
    this.opening = this.openNow(sessionId, keepUnsent);
    return this.opening;
  }

  /** `keepUnsent`: the prompts in the view that wait for the server go to this session. */
  private async openNow(sessionId: string | null, keepUnsent: boolean): Promise<void> {
    this.openCount += 1;
    const { openCount } = this;
    const isOutdated = () => openCount !== this.openCount;
    this.view.flushUpdates();
    this.view.post({
      type: 'opening',
      sessionId,
      draft: this.drafts.get(sessionId),
      mode: this.newSessionMode,
      keepUnsent,
    });
    await this.storage.update(LAST_SESSION_KEY, sessionId ?? undefined);
    if (sessionId === null) {
      if (!isOutdated()) this.setSession(null);
      return;
    }
    try {
      const [page, { prompts }] = await Promise.all([
        this.connection.request('pilotfish/session/load', { sessionId, limit: PAGE_SIZE }),
        this.connection.request('pilotfish/queue/list', { sessionId }),
      ]);
      if (isOutdated()) {
        this.approvals.sync(sessionId, page.pendingApprovals);
        return;
      }
      this.setSession(page.session);
      this.view.post({ type: 'loaded', page, queue: prompts, draft: this.drafts.get(sessionId), at: Date.now() });
      this.view.post({ type: 'context', context: this.context });
      this.approvals.sync(sessionId, page.pendingApprovals);
      this.sessions.upsert(page.session);
      this.opened.fire();
    } catch (error) {
      if (isOutdated()) return;
      if (codeOf(error) === ErrorCode.unknown_session) {
        await this.openNow(null, keepUnsent);
        return;
      }
      // The view shows no session now, so the next prompt must not go to the previous one.
      this.setSession(null);
      this.log.error(`open ${sessionId}: ${messageOf(error)}`);
      this.view.post({ type: 'openFailed', sessionId, message: messageOf(error) });
    }
  }

  /** Reads the session in view again, if it still is in view. */
  private async reloadSession(sessionId: string): Promise<void> {
    if (this.session?.id !== sessionId || !this.view.isVisible) return;
    const page: SessionLoadResult = await this.connection.request('pilotfish/session/load', {
      sessionId,
      limit: PAGE_SIZE,
    });
    if (this.session?.id !== sessionId) return;
    this.setSession(page.session);
    this.view.post({ type: 'refreshed', page, at: Date.now() });
    this.approvals.sync(sessionId, page.pendingApprovals);
  }

  private handleUpdate(params: UpdateParams): void {
    const { update, sessionId, turnId } = params;
    if ((update.kind === 'turn_started' || update.kind === 'state') && update.promptId !== undefined) {
      this.drafts.confirm(update.promptId);
      this.queue.drop(update.promptId);
    }
    if (update.kind === 'turn_ended') {
      this.approvals.endTurn(turnId);
      if (update.stopReason === 'end_turn')
        void vscode.commands.executeCommand('setContext', 'pilotfish.answered', true);
    }
    if (sessionId !== this.session?.id) return;
    if (update.kind === 'turn_started' || update.kind === 'turn_ended')
      this.setSession({ ...this.session, busy: update.kind === 'turn_started' });
    if (update.kind === 'session_info') this.setSession(update.session);
    if (update.kind === 'usage') {
      this.setContext({
        used: update.contextUsed,
        ...(update.contextWindow !== undefined && { window: update.contextWindow }),
      });
    }
    // The turn may have read a steered prompt at the start of this step.
    if (update.kind === 'state' || update.kind === 'turn_started') this.queue.publishSoon();
    this.view.postUpdate(params);
  }

  private setContext(context: ContextUsage): void {
    this.context = context;
    void this.storage.update(CONTEXT_KEY, { sessionId: this.session?.id, context });
    this.view.post({ type: 'context', context });
    this.changed.fire();
  }

  private setSession(session: Session | null): void {
    if (session?.id !== this.session?.id) {
      // The server sends the usage only while a turn runs; a window that was reloaded has the last one.
      const last = this.storage.get<{ sessionId?: string; context: ContextUsage }>(CONTEXT_KEY);
      this.context = session && last?.sessionId === session.id ? last.context : null;
      this.queue.clear();
    }
    this.session = session;
    void vscode.commands.executeCommand('setContext', 'pilotfish.busy', this.busy);
    void vscode.commands.executeCommand('setContext', 'pilotfish.hasSession', session !== null);
    this.changed.fire();
  }
}
