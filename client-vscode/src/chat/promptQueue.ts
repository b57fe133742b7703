/** Prompts that wait: for the end of the running turn, or, steered, for its next step. */

import type { QueuedPrompt, Session } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import type { Batch } from './batch.ts';
import type { View } from './chatView.ts';
import type { Drafts } from './drafts.ts';

export class Queue {
  /** sent while a turn runs, and not yet seen in the server's line */
  private readonly unseen = new Map<string, QueuedPrompt>();

  constructor(
    private readonly connection: Connection,
    private readonly view: Pick<View, 'post'>,
    private readonly batch: Batch,
    private readonly drafts: Drafts,
    private readonly session: () => Session | null,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** On its way to the line. */
  sent(prompt: QueuedPrompt): void {
    this.unseen.set(prompt.promptId, prompt);
    this.refresh();
  }

  /** Its turn has begun, or it was answered: it waits no more. */
  left(promptId: string): void {
    this.unseen.delete(promptId);
  }

  /** Another session. */
  clear(): void {
    this.unseen.clear();
  }

  /** The view is told how the line stands, soon. */
  refresh(): void {
    void this.tell().catch((error) => this.failed(error));
  }

  async tell(): Promise<void> {
    const session = this.session();
    if (!session || !this.connection.connected) return;
    const prompts = await this.list(session.id);
    for (const { promptId } of prompts) {
      this.drafts.taken(promptId);
      this.unseen.delete(promptId);
    }
    // What was steered is read where a step begins: the view must have heard of the step.
    this.batch.flush();
    this.view.post({ type: 'queue', sessionId: session.id, prompts: [...prompts, ...this.unseen.values()] });
  }

  async withdraw(promptId: string): Promise<void> {
    const session = this.session();
    if (!session) return;
    await this.connection.request('pilotfish/queue/remove', { sessionId: session.id, promptId });
    await this.tell();
  }

  /** A prompt that waits for the turn's end is handed over at its next step instead. */
  async steer(promptId: string): Promise<void> {
    const session = this.session();
    if (!session) return;
    const prompt = (await this.list(session.id)).find((one) => one.promptId === promptId);
    if (!prompt) return;
    await this.connection.request('pilotfish/queue/remove', { sessionId: session.id, promptId });
    this.again(session.id, { ...prompt, promptId: `${promptId}.s`, kind: 'steer' });
    await this.tell();
  }

  /** The line in another order: everything from the first that moved is taken out and put in again. */
  async reorder(promptIds: readonly string[]): Promise<void> {
    const session = this.session();
    if (!session) return;
    const queue = await this.list(session.id);
    const first = queue.findIndex((prompt, index) => prompt.promptId !== promptIds[index]);
    if (first < 0) return;
    const moved = promptIds.slice(first).map((id) => queue.find((prompt) => prompt.promptId === id));
    for (const { promptId } of queue.slice(first))
      await this.connection.request('pilotfish/queue/remove', { sessionId: session.id, promptId });
    for (const prompt of moved) {
      if (prompt) this.again(session.id, { ...prompt, promptId: `${prompt.promptId}.r` });
    }
    await this.tell();
  }

  /** Into the line once more; the request is held until its turn has ended. */
  private again(sessionId: string, { promptId, prompt, kind }: QueuedPrompt): void {
    this.connection
      .request('pilotfish/session/prompt', { sessionId, promptId, prompt, whenBusy: kind })
      .then((result) => {
        this.view.post({ type: 'answered', promptId, result });
        return this.tell();
      })
      .catch((error) => this.failed(error));
  }

  private async list(sessionId: string): Promise<readonly QueuedPrompt[]> {
    return (await this.connection.request('pilotfish/queue/list', { sessionId })).prompts;
  }
}
