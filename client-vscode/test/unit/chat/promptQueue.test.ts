import { expect, it, vi } from 'vitest';
import { UpdateBatch } from '../../../src/chat/chatView.ts';
import { PromptQueue } from '../../../src/chat/promptQueue.ts';
import type { UpdateParams } from '../../../src/protocol.gen.ts';
import type { ToView } from '../../../webview/messages.ts';
import { SESSION } from '../../harness/scenes.ts';
import { connected } from '../support/transport.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

it('the queue is sent after the update of the step that read a steered prompt', async () => {
  const { connection, transport } = connected();
  transport.sendRequest = async () => ({ prompts: [] });
  const posted: string[] = [];
  const post = (message: ToView) => void posted.push(message.type);
  const batch = new UpdateBatch(post);
  const queue = new PromptQueue(
    connection,
    { post, flushUpdates: () => batch.flush() },
    { confirm: () => {} },
    () => SESSION,
    () => {},
  );
  const step: UpdateParams = {
    sessionId: 's1',
    turnId: 't1',
    seq: 7,
    update: { kind: 'state', state: 'assistant', iteration: 2 },
  };
  queue.add({ promptId: 'p2', prompt: [{ type: 'text', text: 'also' }], kind: 'steer' });
  batch.push(step);
  await queue.publish();
  expect(posted.slice(0, 2)).toEqual(['updates', 'queue']);
});

it('the first update is sent at once, and those that follow soon are sent together', () => {
  vi.useFakeTimers();
  const posted: number[][] = [];
  const batch = new UpdateBatch((message) => {
    if (message.type === 'updates') posted.push(message.updates.map(({ seq }) => seq));
  });
  const update = (seq: number): UpdateParams => ({
    sessionId: 's1',
    turnId: 't1',
    seq,
    update: { kind: 'agent_message_chunk', itemId: 'm', text: 'a' },
  });
  for (const seq of [1, 2, 3]) batch.push(update(seq));
  expect(posted).toEqual([[1]]);
  vi.advanceTimersByTime(60);
  vi.advanceTimersByTime(60);
  batch.push(update(4));
  expect(posted).toEqual([[1], [2, 3], [4]]);
  vi.useRealTimers();
});

it('after a stop the queue is resumed with its first prompt, or cleared', async () => {
  const { connection, transport } = connected();
  const prompts = ['p1', 'p2'].map((promptId) => ({ promptId, prompt: [], kind: 'queue' as const }));
  const sent: [string, unknown][] = [];
  transport.sendRequest = async (method, params) => {
    if (method !== 'pilotfish/queue/list') sent.push([method, params]);
    return { prompts };
  };
  const view = { post: () => {}, flushUpdates: () => {} };
  const queue = new PromptQueue(
    connection,
    view,
    { confirm: () => {} },
    () => SESSION,
    () => {},
  );
  await queue.resume();
  expect(sent).toEqual([
    ['pilotfish/queue/remove', { sessionId: 's1', promptId: 'p1' }],
    ['pilotfish/session/prompt', { sessionId: 's1', promptId: 'p1.n', prompt: [], whenBusy: 'queue' }],
  ]);
  sent.length = 0;
  await queue.clearAll();
  expect(sent.map(([, params]) => (params as { promptId: string }).promptId)).toEqual(['p1', 'p2']);
});
