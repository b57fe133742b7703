import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Memento } from 'vscode';
import { Approvals } from '../../../src/approvals/approvals.ts';
import { Chat } from '../../../src/chat/chat.ts';
import type { View } from '../../../src/chat/chatView.ts';
import { Drafts } from '../../../src/chat/drafts.ts';
import { ErrorCode } from '../../../src/protocol.gen.ts';
import { Connection, type Transport } from '../../../src/server/connection.ts';
import type { Server } from '../../../src/server/server.ts';
import type { Sessions } from '../../../src/sessions/sessionTree.ts';
import { EMPTY_DRAFT, type FromView, type ToView } from '../../../webview/messages.ts';
import { SESSION } from '../../harness/scenes.ts';
import { LOG, logged, pressed, ran, said } from '../support/vscode.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

/** An answer the server owes, given when the test says so. */
interface Owed {
  method: string;
  params: Record<string, unknown>;
  give(result: unknown): Promise<void>;
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
  const owed: Owed[] = [];
  const transport: Transport = {
    sendRequest: (method, params) => {
      if (method === 'pilotfish/queue/list') return Promise.resolve({ prompts: [] });
      return new Promise((give, fail) => {
        owed.push({
          method,
          params: params as Record<string, unknown>,
          give: async (result) => {
            give(result);
            await settle();
          },
          fail: async (code, message, data) => {
            fail(Object.assign(new Error(message), { code, data }));
            await settle();
          },
        });
      });
    },
    sendNotification: async () => {},
    onRequest: () => ({ dispose: () => {} }),
    onNotification: () => ({ dispose: () => {} }),
  };
  const connection = new Connection();
  const approvals = new Approvals(connection);
  connection.attach(transport);
  const kept = new Map<string, unknown>();
  const storage = {
    get: (name: string) => kept.get(name),
    update: async (name: string, value: unknown) => void kept.set(name, value),
  } as unknown as Memento;
  const posted: ToView[] = [];
  let hear: (message: FromView) => void = () => {};
  const view = {
    post: (message: ToView) => posted.push(message),
    onDidReceive: (listener: (message: FromView) => void) => {
      hear = listener;
    },
    onDidHide: () => {},
    setBadge: () => {},
    deliver: () => {},
    isVisible: true,
  } as unknown as View;
  const quiet = () => ({ dispose: () => {} });
  const server = {
    onDidChange: quiet,
    onDidCrash: quiet,
    state: { status: 'ready', version: '1' },
  } as unknown as Server;
  const sessions = { onDidList: quiet, noted: () => {}, show: () => {}, all: [] } as unknown as Sessions;
  const drafts = new Drafts(storage);
  const chat = new Chat(storage, view, connection, server, approvals, sessions, drafts, LOG, async () => {});
  const wait = async (method: string): Promise<Owed> => {
    for (let n = 0; n < 50; n += 1) {
      const at = owed.findIndex((one) => one.method === method);
      if (at >= 0) return owed.splice(at, 1)[0] as Owed;
      await settle();
    }
    throw new Error(`nobody asked ${method}`);
  };
  return { chat, posted, kept, owed, wait, say: (message: FromView) => hear(message) };
}

beforeEach(() => {
  said.length = 0;
  logged.length = 0;
  ran.length = 0;
  pressed.next = undefined;
});

describe('opening a session', () => {
  it('the last that was asked for is shown, though the one before it comes later', async () => {
    const { chat, posted, wait } = rig();
    void chat.open('s1');
    const first = await wait('pilotfish/session/load');
    const opened = chat.open('s2');
    const second = await wait('pilotfish/session/load');
    await second.give(page('s2'));
    await first.give(page('s1'));
    await opened;
    expect(chat.session?.id).toBe('s2');
    expect(posted.filter(({ type }) => type === 'loaded')).toHaveLength(1);
  });

  it('that cannot be loaded is said in the view, and what is written next is not of the one before', async () => {
    const { chat, posted, wait, kept, say } = rig();
    void chat.open('s1');
    await (await wait('pilotfish/session/load')).give(page('s1'));
    void chat.open('s2');
    await (await wait('pilotfish/session/load')).fail(ErrorCode.storage, 'The disk is full.', { remedy: 'Free some.' });
    expect(posted.at(-1)).toEqual({ type: 'openFailed', sessionId: 's2', message: 'The disk is full. Free some.' });
    expect([chat.session, kept.get('pilotfish.session'), said]).toEqual([null, 's2', []]);
    say(send('p1'));
    expect((await wait('pilotfish/session/new')).params).toEqual({ mode: 'ask' });
  });

  it('that is gone leaves none', async () => {
    const { chat, posted, wait, kept } = rig();
    const opened = chat.open('s1');
    await (await wait('pilotfish/session/load')).fail(ErrorCode.unknown_session, 'gone');
    await opened;
    expect([chat.session, kept.get('pilotfish.session')]).toEqual([null, undefined]);
    expect(posted.at(-1)).toMatchObject({ type: 'opening', sessionId: null });
  });
});

describe('a session that another window works in', () => {
  it('is looked at until that is over', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { chat, posted, owed } = rig();
    const flush = async () => {
      for (let n = 0; n < 20; n += 1) await Promise.resolve();
    };
    const elsewhere = { ...page('s1'), session: { ...SESSION, busy: true, elsewhere: true } };
    void chat.open('s1');
    await flush();
    const answer = async (result: unknown) => {
      void owed.splice(0, 1)[0]?.give(result);
      await flush();
    };
    await answer(elsewhere);
    vi.advanceTimersByTime(3000);
    await flush();
    await answer(elsewhere);
    vi.advanceTimersByTime(3000);
    await flush();
    await answer(page('s1'));
    vi.advanceTimersByTime(30_000);
    await flush();
    vi.useRealTimers();
    expect(owed).toEqual([]);
    expect(posted.flatMap((one) => (one.type === 'refreshed' ? [one.page.session.busy] : []))).toEqual([true, false]);
    expect(chat.busy).toBe(false);
  });
});

describe('a prompt', () => {
  it('sent while its session is loaded goes there, and makes no other', async () => {
    const { chat, wait, owed, say } = rig();
    void chat.open('s1');
    const load = await wait('pilotfish/session/load');
    say(send('p1'));
    await settle();
    expect(owed).toEqual([]);
    await load.give(page('s1'));
    expect((await wait('pilotfish/session/prompt')).params).toMatchObject({ sessionId: 's1', promptId: 'p1' });
  });

  it('and the next, sent before there is a session, share the one that is made', async () => {
    const { wait, owed, say, chat } = rig();
    say(send('p1'));
    say(send('p2'));
    const made = await wait('pilotfish/session/new');
    await settle();
    expect(owed).toEqual([]);
    await made.give({ session: { ...SESSION, id: 'new', busy: false } });
    const prompts = [await wait('pilotfish/session/prompt'), await wait('pilotfish/session/prompt')];
    expect(prompts.map(({ params }) => [params.sessionId, params.promptId])).toEqual([
      ['new', 'p1'],
      ['new', 'p2'],
    ]);
    expect(chat.session?.id).toBe('new');
  });

  it('stopped before there is a session is not sent, and its words come back', async () => {
    const { wait, owed, say, posted } = rig();
    const draft = { ...EMPTY_DRAFT, text: 'Never mind' };
    say({ ...(send('p1') as Extract<FromView, { type: 'send' }>), draft });
    const made = await wait('pilotfish/session/new');
    say({ type: 'stop' });
    await made.give({ session: { ...SESSION, id: 'new', busy: false } });
    // The session is there by now, so the stop is told to it as well.
    expect(owed.filter(({ method }) => method === 'pilotfish/session/prompt')).toEqual([]);
    expect(posted.at(-1)).toEqual({
      type: 'sendFailed',
      promptId: 'p1',
      message: 'Stopped before it was sent.',
      draft,
    });
  });

  it('that made a session takes nobody away who has gone elsewhere meanwhile', async () => {
    const { chat, wait, say } = rig();
    say(send('p1'));
    const made = await wait('pilotfish/session/new');
    void chat.open('s2');
    await (await wait('pilotfish/session/load')).give(page('s2'));
    await made.give({ session: { ...SESSION, id: 'new', busy: false } });
    expect((await wait('pilotfish/session/prompt')).params.sessionId).toBe('new');
    expect(chat.session?.id).toBe('s2');
  });
});

describe('what fails', () => {
  it.each([
    [ErrorCode.not_trusted, 'Trust…', 'workbench.trust.manage'],
    [ErrorCode.storage, 'Show Log', 'pilotfish.showLog'],
  ])('is told with what helps: %s', async (code, button, command) => {
    const { chat, wait, say } = rig();
    void chat.open('s1');
    await (await wait('pilotfish/session/load')).give(page('s1'));
    pressed.next = (_, buttons) => buttons[0];
    const offered: string[] = [];
    pressed.next = (_, buttons) => {
      offered.push(...buttons);
      return buttons[0];
    };
    ran.length = 0;
    say({ type: 'stop' });
    await (await wait('pilotfish/session/cancel')).fail(code, 'No.');
    await settle();
    expect([said, offered, ran]).toEqual([['Pilotfish: No.'], [button], [command]]);
    expect(logged).toEqual(['stop: No.']);
  });
});
