/** The chat view's host: carries the wire to the view and the user's acts to the wire. It decides nothing. */

import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import type { Ask, FromView, ModelState, ToView } from '../webview/messages.ts';
import type { Approvals } from './approvals.ts';
import type { Connection } from './connection.ts';
import type { Drafts } from './drafts.ts';
import { ErrorCode, type Mode, type QueuedPrompt, type Session, type UpdateParams } from './protocol.gen.ts';
import type { Server } from './server.ts';
import { type Sessions, workspaceFolder } from './sessions.ts';

export const CHAT_VIEWS = ['pilotfish.chat', 'pilotfish.chatPrimary'] as const;
/** Updates go to the view this often, in ms: it paints once a frame anyway. */
const BATCH = 50;
const FIRST_PAGE = 200;
const PAGE = 200;
const CURRENT = 'pilotfish.session';

/** What the view asks for that is no matter of a session; commands.ts has it. */
export type Elsewhere = (message: FromView) => Promise<void>;

export class Chat implements vscode.WebviewViewProvider {
  private view: vscode.WebviewView | undefined;
  private ready = false;
  private batch: UpdateParams[] = [];
  private timer: NodeJS.Timeout | undefined;
  private readonly asks = new Map<string, { ask: Ask; reply: (answer: string | null) => void }>();
  private later: ToView[] = [];
  private askCount = 0;
  /** sent while a turn runs, and not yet seen in the server's line */
  private readonly unseen = new Map<string, QueuedPrompt>();
  private readonly moved = new vscode.EventEmitter<void>();
  /** another session, or the same one changed */
  readonly onDidChange = this.moved.event;
  session: Session | null = null;
  context: { used: number; window?: number } | null = null;
  /** the mode of a session that is not there yet */
  mode: Mode;
  model: ModelState | undefined;

  constructor(
    private readonly extension: vscode.ExtensionContext,
    private readonly connection: Connection,
    private readonly server: Server,
    private readonly approvals: Approvals,
    private readonly sessions: Sessions,
    private readonly drafts: Drafts,
    private readonly log: vscode.LogOutputChannel,
    private readonly elsewhere: Elsewhere,
  ) {
    this.mode = vscode.workspace.getConfiguration('pilotfish').get<Mode>('mode', 'ask');
    connection.on('pilotfish/session/update', (params) => this.update(params));
    connection.answer('pilotfish/user/ask', async ({ sessionId, question, options }, token) => {
      const answer = await this.askUser(sessionId, question, options, token);
      return answer === null ? { dismissed: true } : { answer, dismissed: false };
    });
    approvals.onDidAsk((request) => this.post({ type: 'approval', request, at: Date.now() }));
    approvals.onDidResolve((resolved) => this.post({ type: 'resolved', resolved }));
    approvals.onDidChange(() => this.showBadge());
    sessions.onDidList((list) => this.post({ type: 'recent', sessions: list.slice(0, 5) }));
    server.onDidChange((state) => this.post({ type: 'server', server: state }));
    server.onDidCrash(() => this.crashed());
  }

  get isVisible(): boolean {
    return this.view?.visible ?? false;
  }

  get busy(): boolean {
    return this.session?.busy ?? false;
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.ready = false;
    const dist = vscode.Uri.joinPath(this.extension.extensionUri, 'dist');
    view.webview.options = { enableScripts: true, localResourceRoots: [dist] };
    view.webview.html = page(view.webview, dist);
    view.webview.onDidReceiveMessage((message: FromView) => {
      this.receive(message).catch((error) => this.failed(error));
    });
    view.onDidChangeVisibility(() => {
      if (!view.visible) this.approvals.setInSight([]);
    });
    view.onDidDispose(() => {
      if (this.view !== view) return;
      this.view = undefined;
      this.ready = false;
      this.approvals.setInSight([]);
    });
    this.showBadge();
  }

  /** Bring the view up; with the focus only because the user asked for the chat. */
  async reveal(focus: boolean): Promise<void> {
    const id = this.view?.viewType ?? CHAT_VIEWS[0];
    if (focus || !this.view) await vscode.commands.executeCommand(`${id}.focus`);
    else this.view.show(true);
  }

  /** To the view, now or when it is there. */
  async tell(message: ToView): Promise<void> {
    await this.reveal(true);
    if (this.ready) this.post(message);
    else this.later.push(message);
  }

  post(message: ToView): void {
    if (this.ready) void this.view?.webview.postMessage(message);
  }

  /** The server is there: what the view must know of it, and the session that was open last. */
  async connected(): Promise<void> {
    const last = this.session?.id ?? this.extension.workspaceState.get<string>(CURRENT);
    await Promise.all([this.sessions.load(), this.open(last ?? null), this.tellCommands()]);
  }

  async open(sessionId: string | null): Promise<void> {
    this.flush();
    this.post({ type: 'opening', sessionId, draft: this.drafts.get(sessionId), mode: this.mode });
    if (sessionId === null) {
      this.become(null);
      return;
    }
    await this.extension.workspaceState.update(CURRENT, sessionId);
    try {
      const [loaded, { prompts }] = await Promise.all([
        this.connection.request('pilotfish/session/load', { sessionId, limit: FIRST_PAGE }),
        this.connection.request('pilotfish/queue/list', { sessionId }),
      ]);
      this.approvals.adopt(loaded.pendingApprovals);
      this.become(loaded.session);
      this.post({ type: 'loaded', page: loaded, queue: prompts, draft: this.drafts.get(sessionId), at: Date.now() });
      this.sessions.noted(loaded.session);
    } catch (error) {
      if (codeOf(error) !== ErrorCode.unknown_session) throw error;
      await this.open(null);
    }
  }

  /** The session changed by our own request. */
  noted(session: Session): void {
    this.sessions.noted(session);
    if (session.id !== this.session?.id) return;
    this.become(session);
    this.post({ type: 'session', session });
  }

  setModel(model: ModelState): void {
    this.model = model;
    this.post({ type: 'model', model });
    this.moved.fire();
  }

  setMode(mode: Mode): void {
    this.mode = mode;
    this.post({ type: 'mode', mode });
    this.moved.fire();
  }

  async stop(): Promise<void> {
    if (this.session) await this.connection.request('pilotfish/session/cancel', { sessionId: this.session.id });
  }

  /** Files of a turn put back or forward. A conflict is shown before anything is changed. */
  async undo(turnId: string | undefined, direction: 'undo' | 'redo', rest: boolean): Promise<void> {
    if (!this.session) return;
    const method = direction === 'undo' ? 'pilotfish/session/undo' : 'pilotfish/session/redo';
    const params = { sessionId: this.session.id, ...(turnId !== undefined && { turnId }) };
    try {
      const tried = await this.connection.request(method, { ...params, dryRun: true });
      const blocked = tried.refused.length > 0 && !rest;
      const result = blocked ? { ...tried, changes: [] } : await this.connection.request(method, params);
      const id = turnId ?? result.turnId ?? tried.turnId;
      if (id !== undefined) this.post({ type: 'undone', turnId: id, direction, result });
      else await this.open(this.session.id);
    } catch (error) {
      if (turnId === undefined) throw error;
      this.post({ type: 'undoFailed', turnId, message: messageOf(error) });
    }
  }

  private async receive(message: FromView): Promise<void> {
    const sessionId = this.session?.id;
    switch (message.type) {
      case 'ready':
        await this.greet();
        return;
      case 'send':
        await this.send(message);
        return;
      case 'resend':
        await this.resend(message);
        return;
      case 'stop':
        await this.stop();
        return;
      case 'forceStop':
        await this.server.restart();
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
      case 'answerAsk':
        this.asks.get(message.id)?.reply(message.answer);
        return;
      case 'visibleCards':
        this.approvals.setInSight(message.approvalIds);
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
        this.post({ type: 'older', sessionId, items: older.items, hasMore: older.hasMore });
        return;
      }
      case 'reload':
        if (sessionId) await this.open(sessionId);
        return;
      case 'draft':
        this.drafts.keep(sessionId ?? null, message.draft);
        return;
      case 'mention': {
        const { mentions } = await this.connection.request('pilotfish/mention/complete', {
          query: message.query,
          limit: 20,
          ...(sessionId && { sessionId }),
        });
        this.post({ type: 'mentions', query: message.query, mentions });
        return;
      }
      case 'withdraw':
        await this.withdraw(message.promptId);
        return;
      case 'steer':
        await this.steer(message.promptId);
        return;
      case 'reorder':
        await this.reorder(message.promptIds);
        return;
      case 'openSession':
        await this.open(message.sessionId);
        return;
      default:
        await this.elsewhere(message);
    }
  }

  private async greet(): Promise<void> {
    this.ready = true;
    this.post({
      type: 'hello',
      words: words(),
      mac: process.platform === 'darwin',
      trusted: vscode.workspace.isTrusted,
    });
    this.post({ type: 'server', server: this.server.state });
    if (this.model) this.post({ type: 'model', model: this.model });
    this.post({ type: 'recent', sessions: this.sessions.all.slice(0, 5) });
    for (const request of this.approvals.open) this.post({ type: 'approval', request, at: Date.now() });
    for (const { ask } of this.asks.values()) this.post({ type: 'ask', ask });
    if (this.connection.connected && this.server.state.status === 'ready') {
      await Promise.all([
        this.open(this.session?.id ?? this.extension.workspaceState.get<string>(CURRENT) ?? null),
        this.tellCommands(),
      ]);
    }
    for (const message of this.later.splice(0)) this.post(message);
  }

  private async send(message: Extract<FromView, { type: 'send' }>): Promise<void> {
    const { promptId, prompt, draft, whenBusy } = message;
    this.drafts.sending(promptId, this.session?.id ?? null, draft);
    try {
      const session = this.session ?? (await this.begin());
      const answering = this.connection.request('pilotfish/session/prompt', {
        sessionId: session.id,
        prompt: [...prompt],
        promptId,
        whenBusy,
      });
      if (session.busy) this.unseen.set(promptId, { promptId, prompt: [...prompt], kind: whenBusy });
      if (session.busy) void this.tellQueue();
      const result = await answering;
      this.unseen.delete(promptId);
      this.drafts.taken(promptId);
      if (this.session?.id !== session.id) return;
      this.flush();
      this.post({ type: 'answered', promptId, result });
      if (result.sessionId !== undefined) await this.open(result.sessionId);
      else if (result.reply !== undefined) await this.refreshSession(session.id);
      await this.tellQueue();
    } catch (error) {
      this.unseen.delete(promptId);
      this.post({ type: 'sendFailed', promptId, message: messageOf(error), draft: this.drafts.failed(promptId) });
      this.log.warn(`prompt: ${messageOf(error)}`);
    }
  }

  private async begin(): Promise<Session> {
    const folder = workspaceFolder();
    const { session } = await this.connection.request('pilotfish/session/new', {
      mode: this.mode,
      ...(folder && { workspaceFolder: folder }),
    });
    await this.extension.workspaceState.update(CURRENT, session.id);
    this.become(session);
    this.sessions.noted(session);
    this.post({ type: 'began', session });
    return session;
  }

  /** An earlier prompt, changed: a copy of the session up to it goes on from there. */
  private async resend(message: Extract<FromView, { type: 'resend' }>): Promise<void> {
    const session = this.session;
    if (!session) return;
    if (message.files === 'undo') {
      for (const turnId of [...message.laterTurns.toReversed(), message.turnId]) {
        await this.connection
          .request('pilotfish/session/undo', { sessionId: session.id, turnId })
          .catch((error) => this.log.info(`undo ${turnId}: ${messageOf(error)}`));
      }
    }
    const before = await this.itemBefore(session.id, message.turnId);
    if (before === undefined) {
      const folder = session.workspaceFolder;
      const fresh = await this.connection.request('pilotfish/session/new', {
        model: session.model,
        mode: session.mode,
        ...(folder !== undefined && { workspaceFolder: folder }),
      });
      await this.open(fresh.session.id);
    } else {
      const fork = await this.connection.request('pilotfish/session/fork', { sessionId: session.id, itemId: before });
      await this.open(fork.session.id);
    }
    const text = message.prompt.find((block) => block.type === 'text');
    this.post({
      type: 'compose',
      text: text?.type === 'text' ? text.text : '',
      chips: message.prompt
        .filter((block) => block !== text)
        .map((block, index) => ({ id: `resent-${index}`, label: '', icon: 'file' as const, block })),
      send: true,
    });
  }

  /** The last item before a turn's prompt; undefined: the turn is the first. */
  private async itemBefore(sessionId: string, turnId: string): Promise<string | undefined> {
    let before: string | undefined;
    for (;;) {
      const { items, hasMore } = await this.connection.request('pilotfish/session/load', {
        sessionId,
        limit: 500,
        ...(before !== undefined && { before }),
      });
      const index = items.findIndex((item) => item.turnId === turnId);
      if (index > 0) return items[index - 1]?.id;
      before = items[0]?.id;
      if (index === 0 && !hasMore) return undefined;
      if (!hasMore || before === undefined) return undefined;
    }
  }

  private async withdraw(promptId: string): Promise<void> {
    if (!this.session) return;
    await this.connection.request('pilotfish/queue/remove', { sessionId: this.session.id, promptId });
    await this.tellQueue();
  }

  /** A prompt that waits is handed over at the running turn's next step instead. */
  private async steer(promptId: string): Promise<void> {
    const prompt = (await this.queue()).find((one) => one.promptId === promptId);
    if (!prompt || !this.session) return;
    const sessionId = this.session.id;
    await this.connection.request('pilotfish/queue/remove', { sessionId, promptId });
    void this.connection
      .request('pilotfish/session/prompt', {
        sessionId,
        promptId: `${promptId}.s`,
        prompt: prompt.prompt,
        whenBusy: 'steer',
      })
      .then(
        () => this.tellQueue(),
        (error) => this.failed(error),
      );
    await this.tellQueue();
  }

  /** The line in another order: everything from the first that moved is taken out and put in again. */
  private async reorder(promptIds: readonly string[]): Promise<void> {
    if (!this.session) return;
    const sessionId = this.session.id;
    const queue = await this.queue();
    const first = queue.findIndex((prompt, index) => prompt.promptId !== promptIds[index]);
    if (first < 0) return;
    const moved = promptIds.slice(first).map((id) => queue.find((prompt) => prompt.promptId === id));
    for (const prompt of queue.slice(first))
      await this.connection.request('pilotfish/queue/remove', { sessionId, promptId: prompt.promptId });
    for (const prompt of moved) {
      if (!prompt) continue;
      this.connection
        .request('pilotfish/session/prompt', {
          sessionId,
          promptId: `${prompt.promptId}.r`,
          prompt: prompt.prompt,
          whenBusy: prompt.kind,
        })
        .then(() => this.tellQueue())
        .catch((error) => this.failed(error));
    }
    await this.tellQueue();
  }

  private async queue() {
    if (!this.session) return [];
    return (await this.connection.request('pilotfish/queue/list', { sessionId: this.session.id })).prompts;
  }

  private async tellQueue(): Promise<void> {
    const session = this.session;
    if (!session || !this.connection.connected) return;
    const prompts = await this.queue();
    for (const { promptId } of prompts) {
      this.drafts.taken(promptId);
      this.unseen.delete(promptId);
    }
    this.post({ type: 'queue', sessionId: session.id, prompts: [...prompts, ...this.unseen.values()] });
  }

  private async tellCommands(): Promise<void> {
    const { commands } = await this.connection.request('pilotfish/command/list', {});
    this.post({ type: 'commands', commands });
  }

  private async refreshSession(sessionId: string): Promise<void> {
    const { session } = await this.connection.request('pilotfish/session/load', { sessionId, limit: 1 });
    this.noted(session);
  }

  private update(params: UpdateParams): void {
    const { update, sessionId } = params;
    if (update.kind === 'turn_started' && update.promptId !== undefined) {
      this.drafts.taken(update.promptId);
      this.unseen.delete(update.promptId);
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
    if (update.kind === 'state' || update.kind === 'turn_started')
      void this.tellQueue().catch((error) => this.failed(error));
    this.batch.push(params);
    this.timer ??= setTimeout(() => this.flush(), BATCH);
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const updates = this.batch;
    this.batch = [];
    if (updates.length > 0) this.post({ type: 'updates', updates, at: Date.now() });
  }

  private become(session: Session | null): void {
    if (session?.id !== this.session?.id) {
      this.context = null;
      this.unseen.clear();
    }
    if (session === null) void this.extension.workspaceState.update(CURRENT, undefined);
    this.session = session;
    void vscode.commands.executeCommand('setContext', 'pilotfish.busy', session?.busy ?? false);
    void vscode.commands.executeCommand('setContext', 'pilotfish.hasSession', session !== null);
    this.moved.fire();
  }

  private crashed(): void {
    this.approvals.clear();
    for (const { reply } of [...this.asks.values()]) reply(null);
    if (this.session) this.become({ ...this.session, busy: false });
    this.post({ type: 'crashed', at: Date.now() });
  }

  private askUser(
    sessionId: string,
    question: string,
    options: readonly string[],
    token: vscode.CancellationToken,
  ): Promise<string | null> {
    return new Promise((resolve) => {
      this.askCount += 1;
      const ask: Ask = { id: `ask-${this.askCount}`, sessionId, question, options };
      const reply = (answer: string | null) => {
        if (!this.asks.delete(ask.id)) return;
        this.post({ type: 'askOver', id: ask.id });
        this.showBadge();
        resolve(answer);
      };
      this.asks.set(ask.id, { ask, reply });
      token.onCancellationRequested(() => reply(null));
      this.post({ type: 'ask', ask });
      this.showBadge();
      if (!this.isVisible) void this.tellAsk(ask);
    });
  }

  private async tellAsk(ask: Ask): Promise<void> {
    const show = vscode.l10n.t('Show');
    const pressed = await vscode.window.showInformationMessage(
      `Pilotfish: ${ask.question}`,
      ...ask.options.slice(0, 3),
      show,
    );
    if (pressed === show) {
      if (ask.sessionId !== this.session?.id) await this.open(ask.sessionId);
      await this.reveal(true);
    } else if (pressed !== undefined) {
      this.asks.get(ask.id)?.reply(pressed);
    }
  }

  private showBadge(): void {
    const open = this.approvals.open.length + this.asks.size;
    void vscode.commands.executeCommand('setContext', 'pilotfish.waiting', this.approvals.open.length > 0);
    if (!this.view) return;
    this.view.badge =
      open > 0
        ? {
            value: open,
            tooltip: open === 1 ? vscode.l10n.t('1 question waiting') : vscode.l10n.t('{0} questions waiting', open),
          }
        : undefined;
  }

  private failed(error: unknown): void {
    this.log.error(messageOf(error));
    void vscode.window.showWarningMessage(`Pilotfish: ${messageOf(error)}`);
  }
}

function page(webview: vscode.Webview, dist: vscode.Uri): string {
  const nonce = randomBytes(16).toString('base64url');
  const at = (name: string) => webview.asWebviewUri(vscode.Uri.joinPath(dist, name));
  const { cspSource } = webview;
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src ${cspSource}; font-src ${cspSource}; img-src ${cspSource} data: blob:; worker-src blob:`;
  return `<!DOCTYPE html>
<html lang="${vscode.env.language}">
<head>
<meta charset="UTF-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${at('style.css')}">
<title>Pilotfish</title>
</head>
<body>
<div id="root"></div>
<script nonce="${nonce}" src="${at('webview.js')}"></script>
</body>
</html>`;
}

function words(): Record<string, string> {
  const bundle = vscode.l10n.bundle ?? {};
  return Object.fromEntries(
    Object.entries(bundle).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function codeOf(error: unknown): number | undefined {
  return error && typeof error === 'object' && 'code' in error && typeof error.code === 'number'
    ? error.code
    : undefined;
}
