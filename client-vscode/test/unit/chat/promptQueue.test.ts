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
