/** Prompts on their way to the server: the first one makes the session, and a draft is kept until the server has it. */

import * as vscode from 'vscode';
import type { FromView } from '../../webview/messages.ts';
import { codeOf, messageOf } from '../errors.ts';
import { ErrorCode, type Mode, type Session } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { workspaceFolder } from '../sessions/sessionTree.ts';
import { composed } from './attachments.ts';
import type { Batch } from './batch.ts';
import type { View } from './chatView.ts';
import type { Drafts } from './drafts.ts';
import type { Queue } from './promptQueue.ts';
import { forkBefore } from './turnHistory.ts';
import { undoTurns } from './undo.ts';

/** What sending needs of the chat. */
export interface Here {
  readonly session: Session | null;
  readonly mode: Mode;
  /** when the session that is being opened, if one is, is there */
  settled(): Promise<void>;
  open(sessionId: string | null): Promise<void>;
  began(session: Session): Promise<void>;
  refresh(sessionId: string): Promise<void>;
  /** reads the session in view once more */
  lookAt(): Promise<void>;
}

export class Sending {
  private beginning: Promise<Session> | undefined;
  private stops = 0;

  constructor(
    private readonly here: Here,
    private readonly connection: Connection,
    private readonly view: Pick<View, 'post'>,
    private readonly batch: Pick<Batch, 'flush'>,
    private readonly queue: Pick<Queue, 'sent' | 'left' | 'tell'>,
    private readonly drafts: Drafts,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  async send(message: Extract<FromView, { type: 'send' }>): Promise<void> {
    const { promptId, prompt, draft, whenBusy } = message;
    this.drafts.sending(promptId, this.here.session?.id ?? null, draft);
    try {
      const { stops } = this;
      const session = await this.session();
      if (stops !== this.stops) throw new Error(vscode.l10n.t('Stopped before it was sent.'));
      const answering = this.connection.request('pilotfish/session/prompt', {
        sessionId: session.id,
        prompt: [...prompt],
        promptId,
        whenBusy,
      });
      if (session.busy) this.queue.sent({ promptId, prompt: [...prompt], kind: whenBusy });
      const result = await answering;
      this.queue.left(promptId);
      this.drafts.taken(promptId);
      if (this.here.session?.id !== session.id) return;
      this.batch.flush();
      this.view.post({ type: 'answered', promptId, result });
      if (result.sessionId !== undefined) await this.here.open(result.sessionId);
      else if (result.reply !== undefined) await this.here.refresh(session.id);
      await this.queue.tell();
    } catch (error) {
      this.queue.left(promptId);
      this.view.post({ type: 'sendFailed', promptId, message: messageOf(error), draft: this.drafts.failed(promptId) });
      this.log.warn(`prompt: ${messageOf(error)}`);
      // Another window works there: that is worth seeing.
      if (codeOf(error) === ErrorCode.session_busy) await this.here.lookAt();
    }
  }

  /** What is not yet with the server does not go there. */
  stop(): void {
    this.stops += 1;
  }

  /** An earlier prompt, changed: a copy of the session up to it goes on from there. */
  async resend(message: Extract<FromView, { type: 'resend' }>): Promise<void> {
    const { session } = this.here;
    if (!session) return;
    if (message.files === 'undo') {
      const undone = [message.turnId, ...message.laterTurns];
      await undoTurns(this.connection, session.id, undone, (said) => this.log.info(said));
    }
    const copy = await forkBefore(this.connection, session, message.turnId);
    await this.here.open(copy.id);
    this.view.post({ type: 'compose', ...composed(message.prompt), send: true });
  }

  /** The one in view, or on its way there; else a new one, the same for every prompt that needs it. */
  private async session(): Promise<Session> {
    await this.here.settled();
    if (this.here.session) return this.here.session;
    this.beginning ??= this.begin().finally(() => {
      this.beginning = undefined;
    });
    return this.beginning;
  }

  private async begin(): Promise<Session> {
    const folder = workspaceFolder();
    const { session } = await this.connection.request('pilotfish/session/new', {
      mode: this.here.mode,
      ...(folder && { workspaceFolder: folder }),
    });
    await this.here.began(session);
    return session;
  }
}
