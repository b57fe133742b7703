import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { CancellationToken, Memento } from 'vscode';
import { amendedArgs, smallestEdit } from '../../src/approvals/amend.ts';
import { showElsewhere } from '../../src/approvals/approvalCommands.ts';
import { Approvals } from '../../src/approvals/approvals.ts';
import { Notifications } from '../../src/approvals/notifications.ts';
import { Batch } from '../../src/chat/batch.ts';
import { Drafts } from '../../src/chat/drafts.ts';
import { Queue } from '../../src/chat/promptQueue.ts';
import { parsePlace } from '../../src/editor/links.ts';
import { textBefore } from '../../src/editor/turnDiff.ts';
import type { ApprovalRequest, UpdateParams } from '../../src/protocol.gen.ts';
import { Connection, NotConnected, type Transport } from '../../src/server/connection.ts';
import { fits } from '../../src/server/findServer.ts';
import { isNewEnough } from '../../src/server/installServer.ts';
import type { Rooms } from '../../src/services.ts';
import { EMPTY_DRAFT, type ToView } from '../../webview/messages.ts';
import { COMMAND_APPROVAL, EDIT_APPROVAL, SESSION } from '../harness/scenes.ts';
import { LOG, pressed, said, settings } from './support/vscode.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

type Handler = (params: never, token: CancellationToken) => unknown;

class FakeTransport implements Transport {
  readonly sent: [string, unknown][] = [];
  readonly requests = new Map<string, Handler>();
  readonly notifications = new Map<string, (params: never) => void>();

  async sendRequest(method: string, params: unknown): Promise<unknown> {
    this.sent.push([method, params]);
    return { accepted: true };
  }
  async sendNotification(method: string, params: unknown): Promise<void> {
    this.sent.push([method, params]);
  }
  onRequest(method: string, handler: Handler) {
    this.requests.set(method, handler);
    return { dispose: () => {} };
  }
  onNotification(method: string, handler: (params: never) => void) {
    this.notifications.set(method, handler);
    return { dispose: () => {} };
  }
  ask(request: ApprovalRequest): { answer: Promise<unknown>; cancel: () => void } {
    const listeners: (() => void)[] = [];
    const token = {
      onCancellationRequested: (listener: () => void) => listeners.push(listener),
    } as unknown as CancellationToken;
    const answer = Promise.resolve(this.requests.get('pilotfish/approval/request')?.(request as never, token));
    const cancel = () => {
      for (const listener of listeners) listener();
    };
    return { answer, cancel };
  }
}

function connected() {
  const connection = new Connection();
  const approvals = new Approvals(connection);
  const transport = new FakeTransport();
  connection.attach(transport);
  return { connection, approvals, transport };
}

beforeEach(() => {
  said.length = 0;
  pressed.next = undefined;
  for (const name of Object.keys(settings)) delete settings[name];
});

describe('the connection', () => {
  it('refuses while there is no server', async () => {
    await expect(new Connection().request('pilotfish/status', {})).rejects.toThrow(NotConnected);
  });

  it('its handlers outlive a restart', () => {
    const { connection, transport } = connected();
    const heard: unknown[] = [];
    connection.on('pilotfish/session/update', (params) => heard.push(params));
    const next = new FakeTransport();
    connection.attach(next);
    expect([...next.requests.keys()]).toEqual([...transport.requests.keys()]);
    next.notifications.get('pilotfish/session/update')?.({ seq: 1 } as never);
    expect(heard).toEqual([{ seq: 1 }]);
  });
});

describe('approvals', () => {
  it('the first answer wins, and a late one says so (9, 10)', async () => {
    const { approvals, transport } = connected();
    const { answer } = transport.ask(EDIT_APPROVAL);
    expect(await approvals.answer('a1', { optionId: 'allow_once' })).toBe(true);
    expect(await approvals.answer('a1', { optionId: 'reject' })).toBe(false);
    expect(await answer).toEqual({ optionId: 'allow_once' });
    expect(said).toEqual(['Pilotfish: already answered']);
    expect(approvals.open).toEqual([]);
  });

  it('answered elsewhere, the question is cleared here', () => {
    const { approvals, transport } = connected();
    void transport.ask(EDIT_APPROVAL).answer.catch(() => {});
    transport.notifications.get('pilotfish/approval/resolved')?.({
      approvalId: 'a1',
      sessionId: 's1',
      optionId: 'reject',
      by: 'x',
    } as never);
    expect(approvals.open).toEqual([]);
  });

  it('taken back by the server, the question is cleared and its request refused', async () => {
    const { approvals, transport } = connected();
    const { answer, cancel } = transport.ask(EDIT_APPROVAL);
    cancel();
    await expect(answer).rejects.toThrow();
    expect(approvals.open).toEqual([]);
  });

  it('known from a transcript only, it is answered by request', async () => {
    const { approvals, transport } = connected();
    approvals.adopt([EDIT_APPROVAL]);
    expect(await approvals.answer('a1', { optionId: 'reject', feedback: 'no' })).toBe(true);
    expect(transport.sent).toEqual([
      ['pilotfish/approval/answer', { approvalId: 'a1', optionId: 'reject', feedback: 'no' }],
    ]);
  });

  it('that cannot be answered, because the server is gone, still stands and says why', async () => {
    const { approvals, connection } = connected();
    const refused: unknown[] = [];
    approvals.onDidRefuse((one) => refused.push(one));
    approvals.adopt([EDIT_APPROVAL]);
    connection.detach();
    expect(await approvals.answer('a1', { optionId: 'allow_once' })).toBe(false);
    expect(refused).toEqual([{ approvalId: 'a1', message: 'Pilotfish is not running.' }]);
    expect(approvals.open).toEqual([EDIT_APPROVAL]);
  });

  it('is not allowed by a rule that could not be saved', async () => {
    const { approvals, transport } = connected();
    const { answer } = transport.ask(EDIT_APPROVAL);
    const rule = { tool: 'edit_file', pattern: '(', scope: 'user' as const };
    const refused: unknown[] = [];
    approvals.onDidRefuse((one) => refused.push(one));
    vi.spyOn(transport, 'sendRequest').mockRejectedValueOnce(new Error('That pattern cannot be one.'));
    await approvals.allowByRule('a1', rule);
    expect(refused).toEqual([{ approvalId: 'a1', message: 'That pattern cannot be one.' }]);
    expect(approvals.open).toEqual([EDIT_APPROVAL]);
    await approvals.allowByRule('a1', { ...rule, pattern: 'src/**' });
    expect(transport.sent).toEqual([
      ['pilotfish/rule/add', { decision: 'allow', ...rule, pattern: 'src/**', sessionId: 's1' }],
    ]);
    expect(await answer).toEqual({ optionId: 'allow_once' });
  });

  it('keys answer only a card that has been in sight for a moment (6)', () => {
    vi.useFakeTimers();
    const { approvals, transport } = connected();
    void transport.ask(EDIT_APPROVAL);
    expect(approvals.hearsKeys('a1')).toBe(false);
    approvals.setInSight(['a1'], null);
    expect(approvals.hearsKeys('a1')).toBe(false);
    vi.advanceTimersByTime(600);
    expect(approvals.hearsKeys('a1')).toBe(true);
    vi.useRealTimers();
  });

  it('a key is about the card with the focus, else about the oldest of the session, else about the oldest', () => {
    const { approvals, transport } = connected();
    const elsewhere = { ...EDIT_APPROVAL, approvalId: 'other', sessionId: 's2' };
    for (const request of [elsewhere, EDIT_APPROVAL, COMMAND_APPROVAL]) void transport.ask(request);
    const about = (focused: string | null, session: string | undefined) => {
      approvals.setInSight(['a1', 'a2'], focused);
      return approvals.current(session)?.approvalId;
    };
    expect([about('a2', 's1'), about(null, 's1'), about('gone', 's1'), about(null, undefined)]).toEqual([
      'a2',
      'a1',
      'a1',
      'other',
    ]);
  });

  it('one that waits in another session is shown there, whatever waits here', async () => {
    const { approvals, transport } = connected();
    for (const request of [EDIT_APPROVAL, { ...EDIT_APPROVAL, approvalId: 'other', sessionId: 's2' }])
      void transport.ask(request);
    const did: unknown[] = [];
    const chat = { session: SESSION, open: async (id: string) => did.push(['open', id]) };
    const view = { tell: async (message: ToView) => did.push(message) };
    await showElsewhere({ approvals, chat, view } as unknown as Rooms);
    expect(did).toEqual([['open', 's2'], { type: 'reveal', approvalId: 'other' }]);
  });
});

describe('notifications', () => {
  const many = [1, 2, 3, 4, 5].map((n) => ({ ...COMMAND_APPROVAL, approvalId: `n${n}` }));

  /** What is said 900 ms later; with `late`, the chat says only then, and the answer is of 200 ms after that. */
  async function notified(
    requests: readonly ApprovalRequest[],
    inSight: readonly string[] = [],
    { inView = false, late = () => {} }: { inView?: boolean; late?: (approvals: Approvals) => void } = {},
  ) {
    vi.useFakeTimers();
    const { approvals, transport } = connected();
    const shown: string[] = [];
    const notifications = new Notifications(
      approvals,
      () => inView,
      async (id) => void shown.push(id),
      async () => {},
      LOG,
    );
    const answers = requests.map((request) => transport.ask(request).answer);
    approvals.setInSight(inSight, null);
    await vi.advanceTimersByTimeAsync(900);
    if (inView) expect(said).toEqual([]);
    late(approvals);
    await vi.advanceTimersByTimeAsync(200);
    vi.useRealTimers();
    notifications.dispose();
    return { approvals, shown, answers };
  }

  it('five questions together are one notification (14)', async () => {
    await notified(many);
    expect(said).toEqual(['Pilotfish: 5 approvals waiting']);
  });

  it('a card in sight needs none (13)', async () => {
    await notified([EDIT_APPROVAL], ['a1']);
    expect(said).toEqual([]);
  });

  it('a chat in view is given time to show the card', async () => {
    await notified([EDIT_APPROVAL], [], { inView: true, late: (approvals) => approvals.setInSight(['a1'], null) });
    expect(said).toEqual([]);
  });

  it('a card that is scrolled away in a chat in view is told of', async () => {
    await notified([EDIT_APPROVAL], [], { inView: true, late: (approvals) => approvals.setInSight([], null, ['a1']) });
    expect(said).toEqual(['Pilotfish: Edit src/auth.ts?']);
  });

  it('a chat that shows nothing is not waited for without end', async () => {
    await notified([EDIT_APPROVAL], [], { inView: true, late: () => vi.advanceTimersByTime(5000) });
    expect(said).toEqual(['Pilotfish: Edit src/auth.ts?']);
  });

  it('the setting silences them', async () => {
    settings.notify = 'never';
    await notified([EDIT_APPROVAL]);
    expect(said).toEqual([]);
  });

  it('dismissed, the question still waits (11)', async () => {
    const { approvals } = await notified([EDIT_APPROVAL]);
    expect(said).toEqual(['Pilotfish: Edit src/auth.ts?']);
    expect(approvals.open).toHaveLength(1);
  });

  it('answers by its button', async () => {
    pressed.next = (_, buttons) => buttons.find((button) => button === 'Deny');
    const { answers } = await notified([EDIT_APPROVAL]);
    expect(await answers[0]).toEqual({ optionId: 'reject' });
  });

  it('pressed too late, it says so (10)', async () => {
    vi.useFakeTimers();
    const { approvals, transport } = connected();
    const notifications = new Notifications(
      approvals,
      () => false,
      async () => {},
      async () => {},
      LOG,
    );
    const { answer } = transport.ask(EDIT_APPROVAL);
    pressed.next = (message) => {
      if (!message.includes('Edit')) return undefined;
      void approvals.answer('a1', { optionId: 'reject' });
      return 'Allow';
    };
    await vi.advanceTimersByTimeAsync(900);
    vi.useRealTimers();
    notifications.dispose();
    expect(await answer).toEqual({ optionId: 'reject' });
    expect(said).toEqual(['Pilotfish: Edit src/auth.ts?', 'Already answered']);
  });
});

describe('amending', () => {
  const before = 'a\nb\nc\nb\nd\n';

  it('an edit is as small as is unique', () => {
    expect(smallestEdit(before, 'a\nb\nX\nb\nd\n')).toEqual({ old_string: 'c', new_string: 'X' });
    expect(smallestEdit(before, 'a\nX\nc\nb\nd\n')).toEqual({ old_string: 'a\nb\nc', new_string: 'a\nX\nc' });
  });

  it.each([
    ['a\nb\nc\n', 'a\nb\nc\nd\n'],
    ['x\nx\nx\n', 'x\nx\ny\nx\n'],
    ['', 'new\n'],
    ['one', 'two'],
  ])('an edit turns %j into %j', (from, to) => {
    const edit = smallestEdit(from, to);
    expect(from.split(edit.old_string).length === 2 || from === edit.old_string).toBe(true);
    expect(from.replace(edit.old_string, () => edit.new_string)).toBe(to);
  });

  it('whole texts are replaced, edits are made anew', () => {
    const file = { uri: 'file:///a', before, after: 'after' };
    const request = (args: Record<string, unknown>): ApprovalRequest => ({
      ...EDIT_APPROVAL,
      call: { ...EDIT_APPROVAL.call, args },
      preview: { kind: 'diff', files: [file] },
    });
    expect(amendedArgs(request({ path: 'a', content: 'after' }), 0, 'mine')).toEqual({ path: 'a', content: 'mine' });
    expect(amendedArgs(request({ path: 'a', edits: [] }), 0, 'a\nb\nX\nb\nd\n')).toEqual({
      path: 'a',
      edits: [{ old_string: 'c', new_string: 'X' }],
    });
    expect(amendedArgs(request({ path: 'a' }), 0, 'mine')).toBeUndefined();
  });
});

describe('drafts', () => {
  function storage(): Memento {
    const kept = new Map<string, unknown>();
    return {
      get: (key: string) => kept.get(key),
      update: async (key: string, value: unknown) =>
        void (value === undefined ? kept.delete(key) : kept.set(key, value)),
      keys: () => [...kept.keys()],
    } as Memento;
  }
  const draft = { ...EMPTY_DRAFT, text: 'a long prompt' };

  it('never cross sessions (31)', () => {
    const drafts = new Drafts(storage());
    drafts.keep('s1', draft);
    expect(drafts.get('s2')).toEqual(EMPTY_DRAFT);
    expect(drafts.get('s1')).toEqual(draft);
  });

  it('are cleared only when the server has them (30)', () => {
    const drafts = new Drafts(storage());
    drafts.sending('p1', 's1', draft);
    expect(drafts.get('s1')).toEqual(draft);
    drafts.taken('p1');
    expect(drafts.get('s1')).toEqual(EMPTY_DRAFT);
  });

  it('written since stay', () => {
    const drafts = new Drafts(storage());
    drafts.sending('p1', 's1', draft);
    drafts.keep('s1', { ...EMPTY_DRAFT, text: 'more' });
    drafts.taken('p1');
    expect(drafts.get('s1').text).toBe('more');
  });

  it('come back when sending failed', () => {
    const drafts = new Drafts(storage());
    drafts.sending('p1', null, draft);
    expect(drafts.failed('p1')).toEqual(draft);
  });
});

describe('small things', () => {
  it('versions fit but for the last number', () => {
    expect([fits('0.1.9', '0.1.0'), fits('0.2.0', '0.1.0'), fits('1.1.0', '0.1.0')]).toEqual([true, false, false]);
  });

  it('Python must be new enough', () => {
    expect([isNewEnough(3, 10), isNewEnough(3, 11), isNewEnough(3, 14), isNewEnough(2, 7)]).toEqual([
      false,
      true,
      true,
      false,
    ]);
  });

  it('places in links', () => {
    expect(parsePlace('src/auth.ts:42')).toEqual({ path: 'src/auth.ts', line: 41 });
    expect(parsePlace('src/auth.ts#L7-L9')).toEqual({ path: 'src/auth.ts', line: 6 });
    expect(parsePlace('README.md')).toEqual({ path: 'README.md', line: undefined });
  });

  it('the text before a turn is worked out from its diffs', () => {
    const diff = '--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n';
    expect(textBefore('a\nB\nc\n', [diff])).toBe('a\nb\nc\n');
    expect(textBefore('all\nelse\n', [diff])).toBeUndefined();
  });
});

describe('the line of prompts', () => {
  const steered = { promptId: 'p2', prompt: [{ type: 'text' as const, text: 'also' }], kind: 'steer' as const };
  const step: UpdateParams = {
    sessionId: 's1',
    turnId: 't1',
    seq: 7,
    update: { kind: 'state', state: 'assistant', iteration: 2 },
  };

  it('is told after the step that read from it, for there the prompt stands', async () => {
    const { connection, transport } = connected();
    transport.sendRequest = async () => ({ prompts: [] });
    const told: string[] = [];
    const view = { post: (message: ToView) => void told.push(message.type) };
    const batch = new Batch(view);
    const drafts = { taken: () => {} } as unknown as Drafts;
    const queue = new Queue(
      connection,
      view,
      batch,
      drafts,
      () => SESSION,
      () => {},
    );
    queue.sent(steered);
    batch.push(step);
    await queue.tell();
    expect(told.slice(0, 2)).toEqual(['updates', 'queue']);
  });
});

describe('a proposal the user wrote into', () => {
  it('is allowed as it was written, whichever surface allows it', async () => {
    const { approvals, transport } = connected();
    approvals.amendment = () => ({ args: { content: 'mine' } });
    const { answer } = transport.ask(EDIT_APPROVAL);
    await approvals.answer('a1', { optionId: 'allow_session' });
    expect(await answer).toEqual({ optionId: 'allow_session', args: { content: 'mine' } });
  });

  it('is denied as any other', async () => {
    const { approvals, transport } = connected();
    approvals.amendment = () => ({});
    const { answer } = transport.ask(EDIT_APPROVAL);
    await approvals.answer('a1', { optionId: 'reject' });
    expect(await answer).toEqual({ optionId: 'reject' });
  });

  it('is not allowed as it was proposed when the call cannot say what was written', async () => {
    const { approvals, transport } = connected();
    approvals.amendment = () => ({});
    const refused: string[] = [];
    approvals.onDidRefuse(({ approvalId }) => refused.push(approvalId));
    transport.ask(EDIT_APPROVAL);
    expect(await approvals.answer('a1', { optionId: 'allow_once' })).toBe(false);
    expect([refused, approvals.open.map(({ approvalId }) => approvalId)]).toEqual([['a1'], ['a1']]);
  });
});
