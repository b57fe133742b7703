/** What the user does: shown here at once, carried out by the host. */

import type { ContentBlock, OptionId, QueuedPrompt } from '../../src/protocol.gen.ts';
import { scroller } from '../common/focus.ts';
import { promptText } from '../common/format.ts';
import type { Draft, NewRule } from '../messages.ts';
import { isBusy } from './state.ts';
import { dispatch, newId, post, state } from './store.ts';

/** How the id of a prompt begins that is sent once more: kept by the server, so a reload still knows. */
export const RETRY = 'retry';

export function send(
  prompt: readonly ContentBlock[],
  draft: Draft,
  whenBusy: 'queue' | 'steer',
  promptId = newId('p'),
): void {
  const sessionId = state.value.session?.id;
  if (isBusy(state.value) && sessionId !== undefined) {
    const queued = { promptId, prompt: [...prompt], kind: whenBusy };
    dispatch({ type: 'queue', sessionId, prompts: [...state.value.queue, queued] });
  } else {
    dispatch({ type: 'sending', promptId, prompt, at: Date.now() });
  }
  post({ type: 'send', promptId, prompt, draft, whenBusy });
}

/** The same prompt once more, as a new turn. */
export function resend(prompt: readonly ContentBlock[]): void {
  send(prompt, { text: promptText(prompt), chips: [], caret: 0 }, 'queue', newId(RETRY));
}

/** The older part of the conversation becomes a summary; the server knows how. */
export function summarise(): void {
  send([{ type: 'text', text: '/compact' }], { text: '', chips: [], caret: 0 }, 'queue');
}

export function carryOn(): void {
  const text = 'Continue where you stopped.';
  send([{ type: 'text', text }], { text: '', chips: [], caret: 0 }, 'queue');
}

/** A prompt out of the line. */
export function withdraw(promptId: string): void {
  dispatch({ type: 'withdrawn', promptId });
  post({ type: 'withdraw', promptId });
}

/** A prompt out of the line and into the composer, with everything that is attached to it. */
export function editQueued({ promptId, prompt }: QueuedPrompt): void {
  dispatch({ type: 'withdrawn', promptId });
  post({ type: 'editQueued', promptId, prompt });
}

/** The rest of the wait before the server's next try is not waited for. */
export function retryNow(turnId: string): void {
  dispatch({ type: 'retrying', turnId });
  post({ type: 'retryNow' });
}

/** A prompt of the line, handed over at the running turn's next step instead. */
export function steer(promptId: string): void {
  dispatch({ type: 'withdrawn', promptId });
  post({ type: 'steer', promptId });
}

export function stop(): void {
  dispatch({ type: 'stopping', at: Date.now() });
  post({ type: 'stop' });
}

export function undo(turnId: string, direction: 'undo' | 'redo', rest = false): void {
  dispatch({ type: 'undoing', turnId, direction });
  post({ type: 'undo', turnId, direction, rest });
}

export function answer(
  approvalId: string,
  optionId: OptionId,
  more: { feedback?: string; args?: Record<string, unknown> } = {},
): void {
  dispatch({ type: 'answering', approvalId, answer: optionId.startsWith('allow') ? 'allow' : 'deny' });
  post({ type: 'answer', approvalId, optionId, ...more });
}

/** Saved first, and only then an answer: a rule that cannot be one must not look like a permission. */
export function allowByRule(approvalId: string, rule: NewRule): void {
  dispatch({ type: 'answering', approvalId, answer: 'allow' });
  post({ type: 'allowByRule', approvalId, rule });
}

/** By the user's hand: what grows or shrinks now must not move what is being read. */
export function toggle(key: string, open: boolean): void {
  scroller.leave();
  dispatch({ type: 'toggle', key, open });
}
