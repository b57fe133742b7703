import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Memento } from 'vscode';
import { Approvals } from '../../../src/approvals/approvals.ts';
import { Chat } from '../../../src/chat/chat.ts';
import type { ChatView } from '../../../src/chat/chatView.ts';
import { Drafts } from '../../../src/chat/drafts.ts';
import { handleViewMessage } from '../../../src/chat/viewHandlers.ts';
import { reportRejection } from '../../../src/errors.ts';
import { ErrorCode, type Update } from '../../../src/protocol.gen.ts';
import { Connection, type Transport } from '../../../src/server/connection.ts';
import type { Services } from '../../../src/services.ts';
import type { SessionTree } from '../../../src/sessions/sessionTree.ts';
import { EMPTY_DRAFT, type FromView, type ToView } from '../../../webview/messages.ts';
import { EDIT_APPROVAL, SESSION, USAGE } from '../../harness/scenes.ts';
import { LOG, logged, pressed, ran, shown } from '../support/vscode.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

/** A request that the test answers when it wants to. */
interface OpenRequest {
  method: string;
  params: Record<string, unknown>;
  answer(result: unknown): Promise<void>;
  fail(code: number, message: string, data?: unknown): Promise<void>;
}

const settle = () => new Promise((done) => setTimeout(done));
const page = (id: string) => ({
  session: { ...SESSION, id, busy: false },
  items: [],
  hasMore: false,
  lastSeq: 0,
  pendingApprovals: [],
});
const send = (promptId: string): FromView => ({
  type: 'send',
  promptId,
  prompt: [{ type: 'text', text: promptId }],
  draft: EMPTY_DRAFT,
  whenBusy: 'queue',
});

function rig() {
  const open: OpenRequest[] = [];
  const listeners = new Map<string, (params: never) => void>();
  const transport: Transport = {
    sendRequest: (method, params) => {
      if (method === 'pilotfish/queue/list') return Promise.resolve({ prompts: [] });
      return new Promise((resolve, reject) => {
        open.push({
          method,
          params: params as Record<string, unknown>,
          answer: async (result) => {
            resolve(result);
            await settle();
          },
          fail: async (code, message, data) => {
            reject(Object.assign(new Error(message), { code, data }));
            await settle();
          },
        });
      });
    },
    sendNotification: async () => {},
    onRequest: () => ({ dispose: () => {} }),
    onNotification: (method, listener) => {
      listeners.set(method, listener);
      return { dispose: () => {} };
    },
  };
  const connection = new Connection();
  const approvals = new Approvals(connection);
  const kept = new Map<string, unknown>();
  const storage = {
    get: (name: string) => kept.get(name),
    update: async (name: string, value: unknown) => void kept.set(name, value),
  } as unknown as Memento;
  const posted: ToView[] = [];
  const view = {
    post: (message: ToView) => posted.push(message),
    postUpdate: () => {},
    flushUpdates: () => {},
    isVisible: true,
  } as unknown as ChatView;
  const sessions = { upsert: () => {}, render: () => {} } as unknown as SessionTree;
  const drafts = new Drafts(storage);
  const chat = new Chat(storage, view, connection, approvals, sessions, drafts, LOG, () => ({
    type: 'context',
    git: true,
  }));
  connection.attach(transport);
  const services = { chat, view, approvals, drafts, sessions } as unknown as Services;
  const receive = (message: FromView) => reportRejection(handleViewMessage(services, message), LOG, message.type);
  const update = (update: Update) =>
    listeners.get('pilotfish/session/update')?.({
      sessionId: 's1',
      turnId: EDIT_APPROVAL.turnId,
      seq: 1,
      update,
    } as never);
  const wait = async (method: string): Promise<OpenRequest> => {
    for (let n = 0; n < 50; n += 1) {
      const at = open.findIndex((one) => one.method === method);
      if (at >= 0) return open.splice(at, 1)[0] as OpenRequest;
      await settle();
    }
    throw new Error(`no request ${method}`);
  };
  return { chat, posted, kept, open, wait, receive, approvals, update };
}

beforeEach(() => {
  shown.length = 0;
  logged.length = 0;
  ran.length = 0;
  pressed.next = undefined;
});

describe('opening a session', () => {
  it('shows the last one that was requested, even if an earlier one loads later', async () => {
    const { chat, posted, wait } = rig();
    void chat.open('s1');
    const first = await wait('pilotfish/session/load');
    const opened = chat.open('s2');
    const second = await wait('pilotfish/session/load');
    await second.answer(page('s2'));
    await first.answer(page('s1'));
    await opened;
    expect(chat.session?.id).toBe('s2');
    expect(posted.filter(({ type }) => type === 'loaded')).toHaveLength(1);
  });

  it('reports a failure, and the next prompt does not go to the previous session', async () => {
    const { chat, posted, wait, kept, receive } = rig();
    void chat.open('s1');
    await (await wait('pilotfish/session/load')).answer(page('s1'));
    void chat.open('s2');
    await (await wait('pilotfish/session/load')).fail(ErrorCode.storage, 'The disk is full.', { remedy: 'Free some.' });
    expect(posted.at(-1)).toEqual({ type: 'openFailed', sessionId: 's2', message: 'The disk is full. Free some.' });
    expect([chat.session, kept.get('pilotfish.session'), shown]).toEqual([null, 's2', []]);
    receive(send('p1'));
    expect((await wait('pilotfish/session/new')).params).toEqual({ mode: 'ask' });
  });

  it('that was deleted shows an empty chat', async () => {
    const { chat, posted, wait, kept } = rig();
    const opened = chat.open('s1');
    await (await wait('pilotfish/session/load')).fail(ErrorCode.unknown_session, 'gone');
    await opened;
    expect([chat.session, kept.get('pilotfish.session')]).toEqual([null, undefined]);
    expect(posted.at(-1)).toMatchObject({ type: 'opening', sessionId: null });
  });
});

describe('state that the host owns', () => {
  it('is complete after a session was loaded: its approvals and its context usage', async () => {
    const { chat, approvals, posted, wait } = rig();
    void chat.open('s1');
    await (await wait('pilotfish/session/load')).answer({ ...page('s1'), pendingApprovals: [EDIT_APPROVAL] });
    expect(approvals.pending).toEqual([EDIT_APPROVAL]);
    expect(posted.slice(-2).map(({ type }) => type)).toEqual(['loaded', 'context']);
  });

  it('follows the updates: context usage is posted, and the end of a turn ends its approvals', async () => {
    const { chat, approvals, posted, wait, update } = rig();
    void chat.open('s1');
    await (await wait('pilotfish/session/load')).answer({ ...page('s1'), pendingApprovals: [EDIT_APPROVAL] });
    update({ kind: 'usage', usage: USAGE, contextUsed: 10, contextWindow: 100 });
    expect([chat.context, posted.at(-1)]).toEqual([
      { used: 10, window: 100 },
      { type: 'context', context: { used: 10, window: 100 } },
    ]);
    update({ kind: 'turn_ended', stopReason: 'cancelled', usage: USAGE });
    expect(approvals.pending).toEqual([]);
  });
});

describe('a session whose turn runs in another window', () => {
  it('is followed by its updates, and can be stopped here', async () => {
    const { chat, open, update } = rig();
    void chat.open('s1');
    await settle();
    await open[0]?.answer({ ...page('s1'), session: { ...SESSION, busy: true, elsewhere: true } });
    expect(chat.busy).toBe(true);
    update({ kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE });
    expect(chat.busy).toBe(false);
  });
});

describe('a prompt', () => {
  it('that is sent while its session is loading waits for it', async () => {
    const { chat, wait, open, receive } = rig();
    void chat.open('s1');
    const load = await wait('pilotfish/session/load');
    receive(send('p1'));
    await settle();
    expect(open).toEqual([]);
    await load.answer(page('s1'));
    expect((await wait('pilotfish/session/prompt')).params).toMatchObject({ sessionId: 's1', promptId: 'p1' });
  });

  it('and the next one share the session that the first one creates', async () => {
    const { wait, open, receive, chat } = rig();
    receive(send('p1'));
    receive(send('p2'));
    const made = await wait('pilotfish/session/new');
    await settle();
    expect(open).toEqual([]);
    await made.answer({ session: { ...SESSION, id: 'new', busy: false } });
    const prompts = [await wait('pilotfish/session/prompt'), await wait('pilotfish/session/prompt')];
    expect(prompts.map(({ params }) => [params.sessionId, params.promptId])).toEqual([
      ['new', 'p1'],
      ['new', 'p2'],
    ]);
    expect(chat.session?.id).toBe('new');
  });

  it('that is stopped before its session exists is returned to the composer', async () => {
    const { wait, open, receive, posted } = rig();
    const draft = { ...EMPTY_DRAFT, text: 'Never mind' };
    receive({ ...(send('p1') as Extract<FromView, { type: 'send' }>), draft });
    const made = await wait('pilotfish/session/new');
    receive({ type: 'stop' });
    await made.answer({ session: { ...SESSION, id: 'new', busy: false } });
    // The session exists by now, so the stop is also sent to it.
    expect(open.filter(({ method }) => method === 'pilotfish/session/prompt')).toEqual([]);
    expect(posted.at(-1)).toEqual({
      type: 'sendFailed',
      promptId: 'p1',
      message: 'Stopped before the prompt was sent.',
      draft,
    });
  });

  it('that creates a session does not replace another session that was opened meanwhile', async () => {
    const { chat, wait, receive } = rig();
    receive(send('p1'));
    const made = await wait('pilotfish/session/new');
    void chat.open('s2');
    await (await wait('pilotfish/session/load')).answer(page('s2'));
    await made.answer({ session: { ...SESSION, id: 'new', busy: false } });
    expect((await wait('pilotfish/session/prompt')).params.sessionId).toBe('new');
    expect(chat.session?.id).toBe('s2');
  });
});

describe('a failure', () => {
  it.each([
    [ErrorCode.not_trusted, 'Trust…', 'workbench.trust.manage'],
    [ErrorCode.storage, 'Show Log', 'pilotfish.showLog'],
  ])('is reported with a button that helps: %s', async (code, button, command) => {
    const { chat, wait, receive } = rig();
    void chat.open('s1');
    await (await wait('pilotfish/session/load')).answer(page('s1'));
    const offered: string[] = [];
    pressed.next = (_, buttons) => {
      offered.push(...buttons);
      return buttons[0];
    };
    ran.length = 0;
    receive({ type: 'stop' });
    await (await wait('pilotfish/session/cancel')).fail(code, 'No.');
    await settle();
    expect([shown, offered, ran]).toEqual([['Pilotfish: No.'], [button], [command]]);
    expect(logged).toEqual(['stop: No.']);
  });
});
