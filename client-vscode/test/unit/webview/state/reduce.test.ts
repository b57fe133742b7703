import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type {
  ApprovalRequest,
  Item,
  Session,
  SessionLoadResult,
  Update,
  UpdateParams,
} from '../../../../src/protocol.gen.ts';
import { EMPTY_DRAFT, type ToView } from '../../../../webview/messages.ts';
import { type LocalAction, reduce } from '../../../../webview/state/reduce.ts';
import {
  currentMode,
  INITIAL,
  isBusy,
  type State,
  sessionApprovals,
  type Turn,
} from '../../../../webview/state/state.ts';
import { AT, call, EDIT_APPROVAL, loaded, SESSION, updates } from '../../../harness/scenes.ts';

interface Recorded {
  session: Session;
  updates: UpdateParams[];
  approvals: ApprovalRequest[];
  loaded: SessionLoadResult;
}

function recorded(name: string): Recorded {
  return JSON.parse(readFileSync(path.join(import.meta.dirname, `../../recorded/${name}.json`), 'utf8'));
}

function run(...actions: (ToView | LocalAction)[]): State {
  return actions.reduce(reduce, INITIAL);
}

const OPEN: ToView = loaded();
const STARTED: Update = { kind: 'turn_started', promptId: 'p1', prompt: [{ type: 'text', text: 'Hi' }] };
const USAGE = {
  inputTokens: 1,
  outputTokens: 1,
  cachedTokens: 0,
  reasoningTokens: 0,
  unpricedRequests: 0,
  requests: 1,
  toolCalls: 0,
};
const ENDED: Update = { kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE };

/** The part of a turn that is the same live and loaded. */
function essence(turn: Turn) {
  return {
    id: turn.id,
    prompt: turn.prompt,
    status: turn.status,
    end: turn.end,
    files: turn.files,
    plan: turn.plan,
    entries: turn.entries.map((entry) => {
      if (entry.kind === 'tool_call') return { id: entry.id, call: entry.call };
      if (entry.kind === 'message' || entry.kind === 'thought')
        return { id: entry.id, kind: entry.kind, text: entry.text };
      return entry;
    }),
  };
}

describe('updates that were recorded from the server', () => {
  it.each(['work', 'failed'])('produce the same turns live and loaded: %s', (name) => {
    const { session, updates: list, loaded: page } = recorded(name);
    const live = run({ type: 'began', session }, { type: 'updates', updates: list, at: AT });
    const again = run({ type: 'loaded', page, queue: [], draft: EMPTY_DRAFT, at: AT });
    expect(live.turns.map(essence)).toEqual(again.turns.map(essence));
    expect(live.lastSeq).toBe(page.lastSeq);
  });

  it('produce the same turns in one batch, one by one, and after a load', () => {
    const { session, updates: list, loaded: page } = recorded('work');
    const began: ToView = { type: 'began', session };
    const whole = run(began, { type: 'updates', updates: list, at: AT });
    const single = list.reduce<State>(
      (state, update) => reduce(state, { type: 'updates', updates: [update], at: AT }),
      run(began),
    );
    expect(single.turns).toEqual(whole.turns);
    const late = run(
      { type: 'loaded', page, queue: [], draft: EMPTY_DRAFT, at: AT },
      { type: 'updates', updates: list, at: AT },
    );
    expect(late.turns.map(essence)).toEqual(whole.turns.map(essence));
  });

  it('leave nothing running', () => {
    const { session, updates: list } = recorded('work');
    const state = run({ type: 'began', session }, { type: 'updates', updates: list, at: AT });
    expect(isBusy(state)).toBe(false);
  });
});

describe('a turn that waits before it asks the provider again', () => {
  const shown = { kind: 'notice', level: 'warning', message: 'Busy. Retrying in 18 s.', cause: 'overloaded' } as const;
  const notice: Update = { ...shown, retryAfter: 18 };
  const waits = run(OPEN, updates([STARTED, notice]));

  it('waits until the time that the server sent, and its notice is the same as a loaded one', () => {
    expect(waits.turns[0]?.retry).toEqual({ at: AT + 18_000, cause: 'overloaded' });
    expect(waits.turns[0]?.entries).toEqual([{ ...shown, id: 'notice.2', turnId: 't1', seq: 2 }]);
  });

  it.each<[string, ToView | LocalAction]>([
    ['the user retries now', { type: 'retrying', turnId: 't1' }],
    ['the provider answers', updates([{ kind: 'agent_message_chunk', itemId: 'm1', text: 'Hi' }], 3)],
    ['the next request starts', updates([{ kind: 'state', state: 'assistant', iteration: 1 }], 3)],
    ['the turn ends', updates([ENDED], 3)],
  ])('stops waiting when %s', (_, action) => {
    expect(reduce(waits, action).turns[0]).not.toHaveProperty('retry');
  });
});

describe('stopping', () => {
  const sending: LocalAction = { type: 'sending', promptId: 'p9', prompt: [{ type: 'text', text: 'early' }], at: AT };

  it('ends when a prompt that was not sent yet is returned', () => {
    const failed: ToView = { type: 'sendFailed', promptId: 'p9', message: 'Stopped.', draft: EMPTY_DRAFT };
    const state = run(OPEN, sending, { type: 'stopping', at: AT }, failed);
    expect([state.stopping, state.turns[0]?.status]).toEqual([null, 'refused']);
  });
});

describe('a prompt that could not be sent', () => {
  const sending = (promptId: string, text: string): LocalAction => ({
    type: 'sending',
    promptId,
    prompt: [{ type: 'text', text }],
    at: AT,
  });
  const failed: ToView = { type: 'sendFailed', promptId: 'p9', message: 'Busy.', draft: EMPTY_DRAFT };
  const refused = [OPEN, sending('p9', 'Me too'), failed];
  const shown = (state: State) => state.turns.map(({ promptId, status }) => [promptId, status]);

  it('is replaced when the same text is sent again', () => {
    expect(shown(run(...refused, sending('p10', 'Me too')))).toEqual([['p10', 'sending']]);
    expect(shown(run(...refused, sending('p10', 'Other')))).toEqual([
      ['p9', 'refused'],
      ['p10', 'sending'],
    ]);
  });

  it('stays when the session is read again', () => {
    const page = { session: SESSION, items: [], hasMore: false, lastSeq: 0, pendingApprovals: [] };
    expect(shown(run(...refused, { type: 'refreshed', page, at: AT }))).toEqual([['p9', 'refused']]);
  });
});

describe('a notice', () => {
  it.each([
    ['error', 'It could not be saved.'],
    ['warning', ''],
  ] as const)('of level %s is announced only if it is urgent', (level, announced) => {
    const notice: Update = { kind: 'notice', level, message: 'It could not be saved.' };
    expect(run(OPEN, updates([STARTED, notice])).urgent.detail).toBe(announced);
  });
});

describe('a session that is being opened', () => {
  const opening = (sessionId: string | null): ToView => ({
    type: 'opening',
    sessionId,
    draft: EMPTY_DRAFT,
    mode: 'ask',
  });
  const sending: LocalAction = { type: 'sending', promptId: 'p9', prompt: [{ type: 'text', text: 'early' }], at: AT };
  const failed: ToView = { type: 'openFailed', sessionId: 's1', message: 'The disk is full.' };

  it('keeps a prompt that was sent before it was loaded', () => {
    const state = run(OPEN, opening('s1'), sending, OPEN);
    expect(state.turns.map(({ promptId, status }) => [promptId, status])).toEqual([['p9', 'sending']]);
  });

  it('shows such a prompt once if the page contains it', () => {
    const item: Item = { kind: 'prompt', id: 'i1', turnId: 't1', seq: 1, prompt: [], promptId: 'p9' };
    const state = run(OPEN, opening('s1'), sending, loaded([item]));
    expect(state.turns.map(({ promptId, status }) => [promptId, status])).toEqual([['p9', 'interrupted']]);
  });

  it('shows and announces why it cannot be loaded, until another session is opened', () => {
    const state = run(OPEN, opening('s1'), failed);
    expect([state.opening, state.openError, state.urgent.detail]).toEqual([
      null,
      { sessionId: 's1', message: 'The disk is full.' },
      'The disk is full.',
    ]);
    expect(reduce(state, opening('s2')).openError).toBeNull();
    expect(reduce(state, { type: 'began', session: SESSION }).openError).toBeNull();
  });

  it('shows no error once another session is being opened', () => {
    expect(run(OPEN, opening('s1'), opening('s2'), failed).openError).toBeNull();
  });
});

describe('a turn that runs in another window', () => {
  const busy = { ...SESSION, busy: true, elsewhere: true };
  const item: Item = { kind: 'prompt', id: 'i1', turnId: 't1', seq: 1, prompt: [{ type: 'text', text: 'Go' }] };
  const shown: Item = { kind: 'message', id: 'm1', turnId: 't1', seq: 2, text: 'So far' };
  const refreshed = (items: readonly Item[], session: Session): ToView => {
    const page = { session, items: [...items], hasMore: false, lastSeq: 2, pendingApprovals: [] };
    return { type: 'refreshed', page, at: AT };
  };

  it('is shown as running, and can be stopped and steered here', () => {
    const state = run(loaded([item], { session: busy }));
    expect([state.turns[0]?.status, isBusy(state)]).toEqual(['running', true]);
  });

  it('is updated at each poll, and rows that the user opened stay open', () => {
    const before = run(loaded([item], { session: busy }), { type: 'toggle', key: 'x', open: true });
    const state = reduce(before, refreshed([item, shown], busy));
    expect(state.turns.flatMap((turn) => turn.entries.map((entry) => entry.id))).toEqual(['m1']);
    expect([state.turns[0]?.key, state.toggles]).toEqual([before.turns[0]?.key, { x: true }]);
  });

  it('changes nothing if its session is no longer in view', () => {
    const state = run(OPEN);
    expect(reduce(state, refreshed([item], { ...busy, id: 'other' }))).toBe(state);
  });
});

describe('a loaded turn', () => {
  it('has its start and end time', () => {
    const { loaded: page } = recorded('work');
    const [turn] = run({ type: 'loaded', page, queue: [], draft: EMPTY_DRAFT, at: AT }).turns;
    const times = page.items.flatMap((item) => (item.kind === 'prompt' || item.kind === 'turn_end' ? [item.at] : []));
    expect([turn?.began, turn?.ended].map((at) => new Date(at ?? 0).toISOString())).toEqual(times.slice(0, 2));
  });
});

describe('sequence numbers', () => {
  it('stop the view after a gap until the session is loaded again', () => {
    const state = run(OPEN, updates([STARTED]), updates([ENDED], 3));
    expect(state.gap).toBe(true);
    expect(isBusy(state)).toBe(true);
    expect(reduce(state, loaded([], { lastSeq: 3 })).gap).toBe(false);
  });

  it('that are known change nothing', () => {
    const state = run(OPEN, updates([STARTED, ENDED]));
    expect(reduce(state, updates([STARTED, ENDED]))).toEqual(state);
  });

  it('of another session change nothing', () => {
    const state = run(OPEN);
    const other: ToView = {
      type: 'updates',
      updates: [{ sessionId: 's9', turnId: 't', seq: 1, update: STARTED }],
      at: AT,
    };
    expect(reduce(state, other)).toEqual(state);
  });
});

describe('a prompt', () => {
  const prompt = [{ type: 'text' as const, text: 'Hi' }];
  const sending: LocalAction = { type: 'sending', promptId: 'p1', prompt, at: AT };

  it('is shown at once, and keeps its key when its turn starts', () => {
    const sent = run(OPEN, sending);
    expect(sent.turns[0]).toMatchObject({ key: 'p1', status: 'sending' });
    const taken = reduce(sent, updates([STARTED]));
    expect(taken.turns).toHaveLength(1);
    expect(taken.turns[0]).toMatchObject({ key: 'p1', id: 't1', status: 'running' });
  });

  it('that fails stays with the reason', () => {
    const state = run(OPEN, sending, { type: 'sendFailed', promptId: 'p1', message: 'No server.', draft: EMPTY_DRAFT });
    expect(state.turns[0]).toMatchObject({ status: 'refused', refusal: 'No server.' });
    expect(isBusy(state)).toBe(false);
  });

  it('that was a command shows its reply', () => {
    const state = run(OPEN, sending, {
      type: 'answered',
      promptId: 'p1',
      result: { turnId: '', stopReason: 'end_turn', usage: USAGE, reply: '**help**' },
    });
    expect(state.turns[0]).toMatchObject({ status: 'ended', entries: [{ kind: 'message', text: '**help**' }] });
  });

  it('leaves the queue when its turn starts', () => {
    const queued: ToView = { type: 'queue', sessionId: 's1', prompts: [{ promptId: 'p1', prompt, kind: 'queue' }] };
    expect(run(OPEN, queued).queue).toHaveLength(1);
    expect(run(OPEN, queued, updates([STARTED])).queue).toEqual([]);
  });
});

describe('approvals', () => {
  const asked: ToView = { type: 'approval', request: EDIT_APPROVAL };

  it('are removed when the host reports that they are resolved', () => {
    const state = run(OPEN, asked);
    expect(sessionApprovals(state)).toHaveLength(1);
    const over = reduce(state, {
      type: 'resolved',
      resolved: { approvalId: 'a1', sessionId: 's1', optionId: 'reject', by: 'lens' },
    });
    expect(sessionApprovals(over)).toEqual([]);
  });

  it('of other sessions are not among those of the session in view', () => {
    const state = run(OPEN, { type: 'approval', request: { ...EDIT_APPROVAL, sessionId: 's2' } });
    expect(state.approvals).toHaveLength(1);
    expect(sessionApprovals(state)).toEqual([]);
  });

  it('that were allowed once are counted', () => {
    const allow: ToView = {
      type: 'resolved',
      resolved: { approvalId: 'a1', sessionId: 's1', optionId: 'allow_once', by: 'card' },
    };
    expect(run(OPEN, asked, allow, asked, allow).allowedCounts).toEqual({ edit_file: 2 });
  });

  it('are announced as urgent', () => {
    expect(run(OPEN, asked).urgent).toEqual({ n: 1, what: 'approval', detail: 'Edit src/auth.ts' });
  });

  it('belong to the host: neither a page, nor the end of a turn, nor a crash changes them', () => {
    const state = run(OPEN, updates([STARTED]), asked, updates([ENDED], 2), { type: 'crashed', at: AT }, OPEN);
    expect(state.approvals).toEqual([{ request: EDIT_APPROVAL }]);
  });
});

describe('the mode and the context usage', () => {
  const mode: ToView = { type: 'mode', mode: 'edit' };

  it('are those of the session, and the mode of new sessions without one', () => {
    const empty = run(mode);
    const open = reduce(empty, OPEN);
    expect([currentMode(empty), currentMode(open)]).toEqual(['edit', SESSION.mode]);
  });

  it('come from the host, and end with the session', () => {
    const state = run(OPEN, { type: 'context', context: { used: 10, window: 100 } });
    expect(state.context).toEqual({ used: 10, window: 100 });
    const opening: ToView = { type: 'opening', sessionId: 's2', draft: EMPTY_DRAFT, mode: 'ask' };
    expect(reduce(state, opening).context).toBeNull();
  });
});

describe('a crash', () => {
  it('is shown while the same session is opened again, but not in another session', () => {
    const again = (sessionId: string): ToView => ({ type: 'opening', sessionId, draft: EMPTY_DRAFT, mode: 'ask' });
    const crash: ToView = { type: 'crashed', at: AT };
    expect(run(OPEN, crash, again('s1'), again('s1')).crashed).toBe(true);
    expect(run(again('s1'), crash, again('s1'), OPEN).crashed).toBe(true);
    expect(run(OPEN, crash, again('s1'), again('s2')).crashed).toBe(false);
  });
});

describe('undo', () => {
  const turn = updates([
    STARTED,
    { kind: 'file_changed', uri: 'file:///a', change: 'edited', added: 1, removed: 1, via: 'buffer' },
    ENDED,
  ]);
  const undoing: LocalAction = { type: 'undoing', turnId: 't1', direction: 'undo' };
  const file = { uri: 'file:///a', change: 'edited' as const, added: 1, removed: 1 };

  it('can be redone', () => {
    const undone = run(OPEN, turn, undoing, {
      type: 'undone',
      turnId: 't1',
      direction: 'undo',
      result: { changes: [file], refused: [] },
    });
    expect(undone.turns[0]?.undo).toBe('undone');
    const redone = reduce(reduce(undone, { type: 'undoing', turnId: 't1', direction: 'redo' }), {
      type: 'undone',
      turnId: 't1',
      direction: 'redo',
      result: { changes: [file], refused: [] },
    });
    expect(redone.turns[0]?.undo).toBe('none');
  });

  it('of a turn that only ran commands changes nothing', () => {
    const result = { changes: [], refused: [], commands: ['make'] };
    const state = run(OPEN, turn, undoing, { type: 'undone', turnId: 't1', direction: 'undo', result });
    expect(state.turns[0]).toMatchObject({ undo: 'none', conflicts: [] });
  });

  it('lists conflicts and changes nothing', () => {
    const refused = [{ uri: 'file:///a', reason: 'changed since' }];
    const state = run(OPEN, turn, undoing, {
      type: 'undone',
      turnId: 't1',
      direction: 'undo',
      result: { changes: [], refused },
    });
    expect(state.turns[0]).toMatchObject({ undo: 'none', conflicts: refused });
  });
});

describe('the queue', () => {
  const text = (words: string) => [{ type: 'text' as const, text: words }];
  const asked = (words: string): ToView => ({
    type: 'queue',
    sessionId: 's1',
    prompts: [{ promptId: words, prompt: text(words), kind: 'steer' }],
  });
  const step = (iteration: number): Update => ({ kind: 'state', state: 'assistant', iteration });
  const words = (state: State) =>
    state.turns.map((turn) => [
      turn.prompt.map((block) => (block.type === 'text' ? block.text : '')).join(),
      turn.status,
      turn.entries.map((entry) => (entry.kind === 'steer' ? `steer ${entry.id}` : entry.id)).join(),
    ]);

  it('a steered prompt that was read at the end belongs to its turn, even if reported later', () => {
    const state = run(
      OPEN,
      updates([STARTED, step(1), { kind: 'agent_message_chunk', itemId: 'm1', text: 'a' }]),
      asked('also'),
      updates([step(2), { kind: 'agent_message_chunk', itemId: 'm2', text: 'b' }], 4),
      updates([ENDED], 6),
      { type: 'queue', sessionId: 's1', prompts: [] },
      { type: 'answered', promptId: 'also', result: { turnId: 't1', stopReason: 'end_turn', usage: USAGE } },
    );
    expect([words(state).at(-1)?.[2], state.queue]).toEqual(['m1,steer also,m2', []]);
  });

  it('a steered prompt is inserted where its step began, even if reported later', () => {
    const state = run(
      OPEN,
      updates([STARTED, step(1), { kind: 'agent_message_chunk', itemId: 'm1', text: 'a' }]),
      asked('also'),
      updates([step(2), { kind: 'agent_message_chunk', itemId: 'm2', text: 'b' }], 4),
      { type: 'queue', sessionId: 's1', prompts: [] },
    );
    expect(words(state)).toEqual([['Hi', 'running', 'm1,steer also,m2']]);
  });

  it('a steered prompt that an update reports is inserted once', () => {
    const read: Update = { kind: 'state', state: 'user_input', iteration: 1, promptId: 'also', prompt: text('also') };
    const begun = [STARTED, step(1), { kind: 'agent_message_chunk', itemId: 'm1', text: 'a' }] satisfies Update[];
    const next = updates([read, step(2), { kind: 'agent_message_chunk', itemId: 'm2', text: 'b' }], 4);
    const nothing: ToView = { type: 'queue', sessionId: 's1', prompts: [] };
    const shown = [['Hi', 'running', 'm1,steer also,m2']];
    expect(words(run(OPEN, updates(begun), asked('also'), next, nothing))).toEqual(shown);
    expect(words(run(OPEN, updates(begun), asked('also'), nothing, next))).toEqual(shown);
    expect(words(run(OPEN, updates(begun), next))).toEqual(shown);
  });

  it('a prompt that the server queued is shown only in the queue', () => {
    const queue: ToView = {
      type: 'queue',
      sessionId: 's1',
      prompts: [{ promptId: 'new', prompt: text('new'), kind: 'queue' }],
    };
    const sending: LocalAction = { type: 'sending', promptId: 'new', prompt: text('new'), at: AT };
    const state = run(OPEN, sending, updates([STARTED]), queue);
    expect(words(state)).toEqual([['Hi', 'running', '']]);
    expect(state.queue.map((prompt) => prompt.promptId)).toEqual(['new']);
  });

  it('a turn that starts comes before prompts that are still being sent', () => {
    const sending: LocalAction = { type: 'sending', promptId: 'new', prompt: text('new'), at: AT };
    const state = run(OPEN, sending, updates([STARTED]));
    expect(words(state)).toEqual([
      ['Hi', 'running', ''],
      ['new', 'sending', ''],
    ]);
    expect(isBusy(state)).toBe(true);
  });
});

describe('turns', () => {
  it('sum several changes of one file, and a new file stays new', () => {
    const change = (kind: 'created' | 'edited', added: number): Update => ({
      kind: 'file_changed',
      uri: 'file:///a',
      change: kind,
      added,
      removed: 0,
      via: 'buffer',
    });
    const state = run(OPEN, updates([STARTED, change('created', 10), change('edited', 2)]));
    expect(state.turns[0]?.files).toEqual([{ uri: 'file:///a', change: 'created', added: 12, removed: 0 }]);
  });

  it('keep only the end of live output', () => {
    const progress: Update = { kind: 'tool_progress', callId: 'c1', text: 'x'.repeat(40_000) };
    const state = run(
      OPEN,
      updates([
        STARTED,
        { kind: 'tool_call', call: call('c1', 'Run x', 'execute', 'in_progress') },
        progress,
        progress,
      ]),
    );
    const [entry] = state.turns[0]?.entries ?? [];
    expect(entry?.kind === 'tool_call' && entry.progress.length).toBe(32_000);
  });

  it('are the same wherever they are split into pages', () => {
    const { loaded: page } = recorded('work');
    const steered: Item = {
      kind: 'prompt',
      id: 'steered',
      turnId: page.items[3]?.turnId ?? '',
      seq: 0,
      prompt: [{ type: 'text', text: 'rather so' }],
      promptId: 'p9',
    };
    const items = page.items.toSpliced(4, 0, steered);
    const load = (some: readonly Item[], hasMore: boolean): ToView => ({
      type: 'loaded',
      page: { ...page, items: [...some], hasMore },
      queue: [],
      draft: EMPTY_DRAFT,
      at: AT,
    });
    const whole = run(load(items, false));
    for (let cut = 1; cut < items.length; cut += 1) {
      const older: ToView = { type: 'older', sessionId: page.session.id, items: items.slice(0, cut), hasMore: false };
      const joined = run(load(items.slice(cut), true), older);
      expect(joined.turns.map(essence), `cut before item ${cut}`).toEqual(whole.turns.map(essence));
      expect(joined.oldest).toBe(items[0]?.id);
    }
  });

  it('that did not finish are shown as interrupted', () => {
    const { loaded: page } = recorded('work');
    const state = run({
      type: 'loaded',
      page: { ...page, items: page.items.slice(0, 5) },
      queue: [],
      draft: EMPTY_DRAFT,
      at: AT,
    });
    expect(state.turns.at(-1)?.status).toBe('interrupted');
  });

  it('of a session that is being opened are empty until it is loaded', () => {
    const state = run(OPEN, updates([STARTED]), { type: 'opening', sessionId: 's2', draft: EMPTY_DRAFT, mode: 'ask' });
    expect(state).toMatchObject({ opening: 's2', session: null, turns: [], toggles: {} });
  });

  it('that were undone by a restore are named until the next prompt or session', () => {
    const restored = { from: 's0', turns: ['t1'], files: 1, refused: [], commands: ['make'] };
    const state = run(OPEN, { type: 'restored', restored });
    expect(state.restored).toEqual(restored);
    const sent = reduce(state, { type: 'sending', promptId: 'p', prompt: [], at: AT });
    const other = reduce(state, { type: 'opening', sessionId: 's2', draft: EMPTY_DRAFT, mode: 'ask' });
    expect([sent.restored, other.restored, reduce(state, { type: 'dismissRestored' }).restored]).toEqual([
      null,
      null,
      null,
    ]);
  });

  it('of the test scenes belong to the session under test', () => {
    expect(run(OPEN).session).toEqual({ ...SESSION, busy: false });
  });
});
