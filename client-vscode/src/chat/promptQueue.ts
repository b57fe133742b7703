/** The prompts that wait for the running turn: queued until it ends, or steered into its next step. */

import type { QueuedPrompt, Session } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import type { ChatView } from './chatView.ts';
import type { Drafts } from './drafts.ts';

export class PromptQueue {
  /** sent while a turn runs, and not yet listed by the server */
  private readonly unconfirmed = new Map<string, QueuedPrompt>();

  constructor(
    private readonly connection: Connection,
    private readonly view: Pick<ChatView, 'post' | 'flushUpdates'>,
    private readonly drafts: Pick<Drafts, 'confirm'>,
    private readonly session: () => Session | null,
    private readonly onError: (error: unknown) => void,
  ) {}

  /** Shows a prompt as queued before the server lists it. */
  add(prompt: QueuedPrompt): void {
    this.unconfirmed.set(prompt.promptId, prompt);
    this.publishSoon();
  }

  /** The prompt no longer waits: its turn started, it was answered, or it could not be sent. */
  drop(promptId: string): void {
    this.unconfirmed.delete(promptId);
  }

  /** Forgets the prompts of the previous session. */
  clear(): void {
    this.unconfirmed.clear();
  }

  publishSoon(): void {
    void this.publish().catch((error) => this.onError(error));
  }

  /** Reads the queue from the server and sends it to the view. */
  async publish(): Promise<void> {
    const session = this.session();
    if (!session || !this.connection.connected) return;
    const prompts = await this.list(session.id);
    for (const { promptId } of prompts) {
      this.drafts.confirm(promptId);
      this.unconfirmed.delete(promptId);
    }
    // The view inserts a steered prompt where the step that read it begins, so it needs that step's update first.
    this.view.flushUpdates();
    this.view.post({ type: 'queue', sessionId: session.id, prompts: [...prompts, ...this.unconfirmed.values()] });
  }

  async withdraw(promptId: string): Promise<void> {
    const session = this.session();
    if (!session) return;
    await this.connection.request('pilotfish/queue/remove', { sessionId: session.id, promptId });
    await this.publish();
  }

  /** Starts the first queued prompt. The server continues with the others when its turn ends. */
  async resume(): Promise<void> {
    const session = this.session();
    const [first] = session ? await this.list(session.id) : [];
    if (!session || !first) return;
    await this.connection.request('pilotfish/queue/remove', { sessionId: session.id, promptId: first.promptId });
    this.resend(session.id, { ...first, promptId: `${first.promptId}.n` });
    await this.publish();
  }

  /** Removes all queued prompts. */
  async clearAll(): Promise<void> {
    const session = this.session();
    for (const { promptId } of session ? await this.list(session.id) : [])
      await this.connection.request('pilotfish/queue/remove', { sessionId: session?.id ?? '', promptId });
    await this.publish();
  }

  /** Turns a queued prompt into one that the running turn reads at its next step. */
  async steer(promptId: string): Promise<void> {
    const session = this.session();
    if (!session) return;
    const prompt = (await this.list(session.id)).find((queued) => queued.promptId === promptId);
    if (!prompt) return;
    await this.connection.request('pilotfish/queue/remove', { sessionId: session.id, promptId });
    this.resend(session.id, { ...prompt, promptId: `${promptId}.s`, kind: 'steer' });
    await this.publish();
  }

  /** Reorders the queue: removes every prompt from the first one that moved, and sends them again in the new order. */
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
      if (prompt) this.resend(session.id, { ...prompt, promptId: `${prompt.promptId}.r` });
    }
    await this.publish();
  }

  /** Does not wait for the request: the server answers it when the prompt's turn has ended. */
  private resend(sessionId: string, { promptId, prompt, kind }: QueuedPrompt): void {
    this.connection
      .request('pilotfish/session/prompt', { sessionId, promptId, prompt, whenBusy: kind })
      .then((result) => {
        this.view.post({ type: 'answered', promptId, result });
        return this.publish();
      })
      .catch((error) => this.onError(error));
  }

  private async list(sessionId: string): Promise<readonly QueuedPrompt[]> {
    return (await this.connection.request('pilotfish/queue/list', { sessionId })).prompts;
  }
}
