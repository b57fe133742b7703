/** The user's actions: the view shows them at once, and the host carries them out. */

import type { ContentBlock, OptionId, QueuedPrompt } from '../../src/protocol.gen.ts';
import { scroller } from '../common/focus.ts';
import { promptText } from '../common/format.ts';
import type { Draft, NewRule } from '../messages.ts';
import { isBusy, type Turn } from './state.ts';
import { dispatch, newId, post, state } from './store.ts';

/** Prefix of the id of a retried prompt. The server stores prompt ids, so a loaded transcript shows retries too. */
export const RETRY_PREFIX = 'retry';

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

/** Sends the same prompt again as a new turn. */
export function resend(prompt: readonly ContentBlock[]): void {
  send(prompt, { text: promptText(prompt), chips: [], caret: 0 }, 'queue', newId(RETRY_PREFIX));
}

/** The later turns that the server knows. */
export function turnsAfter(turn: Turn): readonly Turn[] {
  const { turns } = state.value;
  return turns.slice(turns.indexOf(turn) + 1).filter(({ id }) => id !== '');
}

/** Sends the prompt of a turn again: after the last turn, or in a copy of the session that ends before an earlier one.
 * If files changed since, the prompt opens for editing, where the user decides about them. */
export function retry(turn: Turn): void {
  const later = turnsAfter(turn);
  if (later.length === 0) resend(turn.prompt);
  else if ([turn, ...later].some(({ files }) => files.length > 0)) toggle(`${turn.key}/edit`, true);
  else {
    const laterTurns = later.map(({ id }) => id);
    post({ type: 'resend', turnId: turn.id, promptId: newId('p'), prompt: turn.prompt, laterTurns, files: 'keep' });
  }
}

/** Asks the server to replace the older part of the conversation with a summary. */
export function summarise(): void {
  send([{ type: 'text', text: '/compact' }], { text: '', chips: [], caret: 0 }, 'queue');
}

export function continueTurn(): void {
  const text = 'Continue where you stopped.';
  send([{ type: 'text', text }], { text: '', chips: [], caret: 0 }, 'queue');
}

/** Removes a prompt from the queue. */
export function withdraw(promptId: string): void {
  dispatch({ type: 'withdrawn', promptId });
  post({ type: 'withdraw', promptId });
}

/** Removes a prompt from the queue and puts it with its attachments into the composer. */
export function editQueued({ promptId, prompt }: QueuedPrompt): void {
  dispatch({ type: 'withdrawn', promptId });
  post({ type: 'editQueued', promptId, prompt });
}

/** Starts the first queued prompt, after a stop has paused the queue. */
export function resumeQueue(): void {
  post({ type: 'resumeQueue' });
}

export function clearQueue(): void {
  for (const { promptId } of state.value.queue) dispatch({ type: 'withdrawn', promptId });
  post({ type: 'clearQueue' });
}

/** Allows this edit and the other edits of its turn. */
export function allowTurnEdits(approvalId: string): void {
  dispatch({ type: 'answering', approvalId, answer: 'allow' });
  post({ type: 'allowTurnEdits', approvalId });
}

/** Skips the wait before the server asks the provider again. */
export function retryNow(turnId: string): void {
  dispatch({ type: 'retrying', turnId });
  post({ type: 'retryNow' });
}

/** Makes the running turn read a queued prompt at its next step. */
export function steer(promptId: string): void {
  dispatch({ type: 'withdrawn', promptId });
  post({ type: 'steer', promptId });
}

export function stop(): void {
  dispatch({ type: 'stopping', at: Date.now() });
  post({ type: 'stop' });
}

/** Goes back to the point before a turn, with files and conversation. The prompt returns to the composer. */
export function restore(turn: Turn): void {
  post({ type: 'restore', turnId: turn.id, prompt: turn.prompt });
}

/** With `rest`, files with conflicts are skipped instead of blocking the undo. */
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

/** Saves a rule and then allows the call. If the rule cannot be saved, the call is not allowed. */
export function allowByRule(approvalId: string, rule: NewRule): void {
  dispatch({ type: 'answering', approvalId, answer: 'allow' });
  post({ type: 'allowByRule', approvalId, rule });
}

/** Opens or closes a row. Stops following the end, so that the row stays where the user clicked. */
export function toggle(key: string, open: boolean): void {
  scroller.leave();
  dispatch({ type: 'toggle', key, open });
}
