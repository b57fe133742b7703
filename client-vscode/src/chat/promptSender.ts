/** Sends prompts to the server. The first prompt creates the session; a draft is kept until the server has it. */

import * as vscode from 'vscode';
import type { FromView } from '../../webview/messages.ts';
import { codeOf, messageOf } from '../errors.ts';
import { type ContextBlock, ErrorCode, type Mode, type Session } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { workspaceFolder } from '../sessions/workspaceFolder.ts';
import { toComposer } from './attachments.ts';
import type { ChatView } from './chatView.ts';
import type { Drafts } from './drafts.ts';
import type { PromptQueue } from './promptQueue.ts';
import { forkBefore, undoTurns } from './turnHistory.ts';

/** The part of the chat that sending needs. */
export interface CurrentSession {
  readonly session: Session | null;
  readonly newSessionMode: Mode;
  /** waits until no session is being opened */
  whenOpened(): Promise<void>;
  open(sessionId: string | null): Promise<void>;
  /** shows a session that the first prompt created */
  showCreated(session: Session): Promise<void>;
  /** reads the session's metadata again */
  refreshMetadata(sessionId: string): Promise<void>;
  /** reads the transcript of the session in view again */
  reload(): Promise<void>;
}

export class PromptSender {
  private creating: Promise<Session> | undefined;
  private stopCount = 0;

  constructor(
    private readonly current: CurrentSession,
    private readonly connection: Connection,
    private readonly view: Pick<ChatView, 'post' | 'flushUpdates'>,
    private readonly queue: Pick<PromptQueue, 'add' | 'drop' | 'publish'>,
    private readonly drafts: Drafts,
    private readonly editorContext: () => ContextBlock,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  async send(message: Extract<FromView, { type: 'send' }>): Promise<void> {
    const { promptId, prompt, draft, whenBusy } = message;
    this.drafts.startSending(promptId, this.current.session?.id ?? null, draft);
    // What the user looks at now: the server may answer much later.
    const context = this.editorContext();
    try {
      const { stopCount } = this;
      // The server may still be starting, or be installed now; the session that it opens gets the prompt.
      if (!this.connection.connected) await this.connection.connect();
      const session = await this.session();
      if (stopCount !== this.stopCount) throw new Error(vscode.l10n.t('Stopped before the prompt was sent.'));
      const answer = this.connection.request('pilotfish/session/prompt', {
        sessionId: session.id,
        prompt: [...prompt, context],
        promptId,
        whenBusy,
      });
      if (session.busy) this.queue.add({ promptId, prompt: [...prompt], kind: whenBusy });
      const result = await answer;
      this.queue.drop(promptId);
      this.drafts.confirm(promptId);
      if (this.current.session?.id !== session.id) return;
      this.view.flushUpdates();
      this.view.post({ type: 'answered', promptId, result });
      if (result.sessionId !== undefined) await this.current.open(result.sessionId);
      else if (result.reply !== undefined) await this.current.refreshMetadata(session.id);
      await this.queue.publish();
    } catch (error) {
      this.queue.drop(promptId);
      this.view.post({
        type: 'sendFailed',
        promptId,
        message: messageOf(error),
        draft: this.drafts.restore(promptId),
      });
      this.log.warn(`prompt: ${messageOf(error)}`);
      // Another window runs a turn in this session: show its progress.
      if (codeOf(error) === ErrorCode.session_busy) await this.current.reload();
    }
  }

  /** Cancels the prompts that have not reached the server yet. */
  cancelUnsent(): void {
    this.stopCount += 1;
  }

  /** Sends a changed version of an earlier prompt, in a copy of the session that ends before that prompt. */
  async resend(message: Extract<FromView, { type: 'resend' }>): Promise<void> {
    const { session } = this.current;
    if (!session) return;
    if (message.files === 'undo') {
      const turnIds = [message.turnId, ...message.laterTurns];
      await undoTurns(this.connection, session.id, turnIds, (text) => this.log.info(text));
    }
    const copy = await forkBefore(this.connection, session, message.turnId);
    await this.current.open(copy.id);
    this.view.post({ type: 'compose', ...toComposer(message.prompt), send: true });
  }

  /** The session in view, or being opened; otherwise a new one, shared by all prompts that wait for it. */
  private async session(): Promise<Session> {
    await this.current.whenOpened();
    if (this.current.session) return this.current.session;
    this.creating ??= this.create().finally(() => {
      this.creating = undefined;
    });
    return this.creating;
  }

  private async create(): Promise<Session> {
    const folder = workspaceFolder();
    const { session } = await this.connection.request('pilotfish/session/new', {
      mode: this.current.newSessionMode,
      ...(folder && { workspaceFolder: folder }),
    });
    await this.current.showCreated(session);
    return session;
  }
}
