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
import { type Local, reduce } from '../../../../webview/state/reduce.ts';
import { INITIAL, isBusy, questions, type State, type Turn } from '../../../../webview/state/state.ts';
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

function run(...actions: (ToView | Local)[]): State {
  return actions.reduce(reduce, INITIAL);
}

const OPEN: ToView = loaded();
const STARTED: Update = { kind: 'turn_started', promptId: 'p1', prompt: [{ type: 'text', text: 'Hi' }] };
const USAGE = { inputTokens: 1, outputTokens: 1, cachedTokens: 0, requests: 1, toolCalls: 0 };
const ENDED: Update = { kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE };

/** What both a live and a loaded turn know. */
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

describe('updates recorded from the real server', () => {
  it.each(['work', 'failed'])('give the same turns live as loaded: %s', (name) => {
    const { session, updates: list, loaded: page } = recorded(name);
    const live = run({ type: 'began', session }, { type: 'updates', updates: list, at: AT });
    const again = run({ type: 'loaded', page, queue: [], draft: EMPTY_DRAFT, at: AT });
    expect(live.turns.map(essence)).toEqual(again.turns.map(essence));
    expect(live.lastSeq).toBe(page.lastSeq);
  });

  it('give the same turns in one batch, one by one, and cut in half by a load', () => {
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

  it('leave no question open and nothing running', () => {
    const { session, updates: list, approvals } = recorded('work');
    const asked = approvals.map((request): ToView => ({ type: 'approval', request, at: AT }));
    const state = run({ type: 'began', session }, ...asked, { type: 'updates', updates: list, at: AT });
    expect(state.approvals).toEqual([]);
    expect(isBusy(state)).toBe(false);
  });
});

describe('a provider that is asked again', () => {
  const said = { kind: 'notice', level: 'warning', message: 'Busy. Retrying in 18 s.', cause: 'overloaded' } as const;
  const notice: Update = { ...said, retryAfter: 18 };
  const waits = run(OPEN, updates([STARTED, notice]));

  it('is waited for until the moment the server named, and the notice reads as it does when loaded', () => {
    expect(waits.turns[0]?.retry).toEqual({ at: AT + 18_000, cause: 'overloaded' });
    expect(waits.turns[0]?.entries).toEqual([{ ...said, id: 'notice.2', turnId: 't1', seq: 2 }]);
  });

  it.each<[string, ToView | Local]>([
    ['the user does not want to wait', { type: 'retrying', turnId: 't1' }],
    ['it answers', updates([{ kind: 'agent_message_chunk', itemId: 'm1', text: 'Hi' }], 3)],
    ['it is asked', updates([{ kind: 'state', state: 'assistant', iteration: 1 }], 3)],
    ['the turn ends', updates([ENDED], 3)],
  ])('is waited for no more when %s', (_, action) => {
    expect(reduce(waits, action).turns[0]).not.toHaveProperty('retry');
  });
});

describe('a stop', () => {
  const sending: Local = { type: 'sending', promptId: 'p9', prompt: [{ type: 'text', text: 'early' }], at: AT };

  it('of a prompt that was not sent yet is over when the prompt comes back', () => {
    const failed: ToView = { type: 'sendFailed', promptId: 'p9', message: 'Stopped.', draft: EMPTY_DRAFT };
    const state = run(OPEN, sending, { type: 'stopping', at: AT }, failed);
    expect([state.stopping, state.turns[0]?.status]).toEqual([null, 'refused']);
  });
});

describe('a refused prompt', () => {
  const sending = (promptId: string, text: string): Local => ({
    type: 'sending',
    promptId,
    prompt: [{ type: 'text', text }],
    at: AT,
  });
  const failed: ToView = { type: 'sendFailed', promptId: 'p9', message: 'Busy.', draft: EMPTY_DRAFT };
  const refused = [OPEN, sending('p9', 'Me too'), failed];
  const shown = (state: State) => state.turns.map(({ promptId, status }) => [promptId, status]);

  it('gives way to the same words sent again, and to no others', () => {
    expect(shown(run(...refused, sending('p10', 'Me too')))).toEqual([['p10', 'sending']]);
    expect(shown(run(...refused, sending('p10', 'Other')))).toEqual([
      ['p9', 'refused'],
      ['p10', 'sending'],
    ]);
  });

  it('stays where the session is read once more', () => {
    const page = { session: SESSION, items: [], hasMore: false, lastSeq: 0, pendingApprovals: [] };
    expect(shown(run(...refused, { type: 'refreshed', page, at: AT }))).toEqual([['p9', 'refused']]);
  });
});

describe('a notice', () => {
  it.each([
    ['error', 'It could not be saved.'],
    ['warning', ''],
  ] as const)('of level %s is said aloud as far as it is urgent', (level, heard) => {
    const notice: Update = { kind: 'notice', level, message: 'It could not be saved.' };
    expect(run(OPEN, updates([STARTED, notice])).urgent.detail).toBe(heard);
  });
});

describe('a session on its way', () => {
  const opening = (sessionId: string | null): ToView => ({
    type: 'opening',
    sessionId,
    draft: EMPTY_DRAFT,
    mode: 'ask',
  });
  const sending: Local = { type: 'sending', promptId: 'p9', prompt: [{ type: 'text', text: 'early' }], at: AT };
  const failed: ToView = { type: 'openFailed', sessionId: 's1', message: 'The disk is full.' };

  it('keeps what was sent to it before it was there', () => {
    const state = run(OPEN, opening('s1'), sending, OPEN);
    expect(state.turns.map(({ promptId, status }) => [promptId, status])).toEqual([['p9', 'sending']]);
  });

  it('has it once, when the page knows it already', () => {
    const item: Item = { kind: 'prompt', id: 'i1', turnId: 't1', seq: 1, prompt: [], promptId: 'p9' };
    const state = run(OPEN, opening('s1'), sending, loaded([item]));
    expect(state.turns.map(({ promptId, status }) => [promptId, status])).toEqual([['p9', 'interrupted']]);
  });

  it('that cannot be loaded says why, aloud too, until another is opened', () => {
    const state = run(OPEN, opening('s1'), failed);
    expect([state.opening, state.unopened, state.urgent.detail]).toEqual([
      null,
      { sessionId: 's1', message: 'The disk is full.' },
      'The disk is full.',
    ]);
    expect(reduce(state, opening('s2')).unopened).toBeNull();
    expect(reduce(state, { type: 'began', session: SESSION }).unopened).toBeNull();
  });

  it('that failed is no news once another is on its way', () => {
    expect(run(OPEN, opening('s1'), opening('s2'), failed).unopened).toBeNull();
  });
});

describe('a turn that runs in another window', () => {
  const busy = { ...SESSION, busy: true, elsewhere: true };
  const item: Item = { kind: 'prompt', id: 'i1', turnId: 't1', seq: 1, prompt: [{ type: 'text', text: 'Go' }] };
  const said: Item = { kind: 'message', id: 'm1', turnId: 't1', seq: 2, text: 'So far' };
  const refreshed = (items: readonly Item[], session: Session): ToView => {
    const page = { session, items: [...items], hasMore: false, lastSeq: 2, pendingApprovals: [] };
    return { type: 'refreshed', page, at: AT };
  };

  it('is shown as running, and this window is free', () => {
    const state = run(loaded([item], { session: busy }));
    expect([state.turns[0]?.status, isBusy(state)]).toEqual(['running', false]);
  });

  it('is shown as it is each time it is looked at, and what was opened by hand stays open', () => {
    const before = run(loaded([item], { session: busy }), { type: 'toggle', key: 'x', open: true });
    const state = reduce(before, refreshed([item, said], busy));
    expect(state.turns.flatMap((turn) => turn.entries.map((entry) => entry.id))).toEqual(['m1']);
    expect([state.turns[0]?.key, state.toggles]).toEqual([before.turns[0]?.key, { x: true }]);
  });

  it('of a session that is no longer in view changes nothing', () => {
    const state = run(OPEN);
    expect(reduce(state, refreshed([item], { ...busy, id: 'other' }))).toBe(state);
  });
});

describe('a loaded turn', () => {
  it('knows when it began and ended', () => {
    const { loaded: page } = recorded('work');
    const [turn] = run({ type: 'loaded', page, queue: [], draft: EMPTY_DRAFT, at: AT }).turns;
    const times = page.items.flatMap((item) => (item.kind === 'prompt' || item.kind === 'turn_end' ? [item.at] : []));
    expect([turn?.began, turn?.ended].map((at) => new Date(at ?? 0).toISOString())).toEqual(times.slice(0, 2));
  });
});

describe('sequence numbers', () => {
  it('a gap stops the view until the session is loaded again', () => {
    const state = run(OPEN, updates([STARTED]), updates([ENDED], 3));
    expect(state.gap).toBe(true);
    expect(isBusy(state)).toBe(true);
    expect(reduce(state, loaded([], { lastSeq: 3 })).gap).toBe(false);
  });

  it('what is known already changes nothing', () => {
    const state = run(OPEN, updates([STARTED, ENDED]));
    expect(reduce(state, updates([STARTED, ENDED]))).toEqual(state);
  });

  it('another session’s updates change nothing', () => {
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
  const sending: Local = { type: 'sending', promptId: 'p1', prompt, at: AT };

  it('is a bubble at once, and keeps its node when the server takes it up', () => {
    const sent = run(OPEN, sending);
    expect(sent.turns[0]).toMatchObject({ key: 'p1', status: 'sending' });
    const taken = reduce(sent, updates([STARTED]));
    expect(taken.turns).toHaveLength(1);
    expect(taken.turns[0]).toMatchObject({ key: 'p1', id: 't1', status: 'running' });
  });

  it('that fails stays, with the reason', () => {
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

  it('leaves the queue when its turn begins', () => {
    const queued: ToView = { type: 'queue', sessionId: 's1', prompts: [{ promptId: 'p1', prompt, kind: 'queue' }] };
    expect(run(OPEN, queued).queue).toHaveLength(1);
    expect(run(OPEN, queued, updates([STARTED])).queue).toEqual([]);
  });
});

describe('questions', () => {
  const asked: ToView = { type: 'approval', request: EDIT_APPROVAL, at: AT };

  it('are cleared by an answer from any surface', () => {
    const state = run(OPEN, asked);
    expect(questions(state)).toHaveLength(1);
    const over = reduce(state, {
      type: 'resolved',
      resolved: { approvalId: 'a1', sessionId: 's1', optionId: 'reject', by: 'lens' },
    });
    expect(questions(over)).toEqual([]);
  });

  it('of other sessions wait too, but not in this one', () => {
    const state = run(OPEN, { type: 'approval', request: { ...EDIT_APPROVAL, sessionId: 's2' }, at: AT });
    expect(state.approvals).toHaveLength(1);
    expect(questions(state)).toEqual([]);
  });

  it('allowed once are counted, so that a rule can be offered', () => {
    const allow: ToView = {
      type: 'resolved',
      resolved: { approvalId: 'a1', sessionId: 's1', optionId: 'allow_once', by: 'card' },
    };
    expect(run(OPEN, asked, allow, asked, allow).allowed).toEqual({ edit_file: 2 });
  });

  it('are heard by a screen reader, once and urgently', () => {
    expect(run(OPEN, asked).urgent).toEqual({ n: 1, what: 'approval', detail: 'Edit src/auth.ts' });
  });

  it('end with the server', () => {
    expect(run(OPEN, asked, { type: 'crashed', at: AT }).approvals).toEqual([]);
  });

  it('a restart is told however often the session is opened again, and of no other session', () => {
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
  const undoing: Local = { type: 'undoing', turnId: 't1', direction: 'undo' };
  const file = { uri: 'file:///a', change: 'edited' as const, added: 1, removed: 1 };

  it('goes forth and back', () => {
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

  it('that met a person’s edits lists them and is not done', () => {
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

describe('the line of prompts', () => {
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

  it('what was read at the very end stands in its turn, though we hear of it after the end', () => {
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

  it('what was steered stands where the step that read it began, however late we hear of it', () => {
    const state = run(
      OPEN,
      updates([STARTED, step(1), { kind: 'agent_message_chunk', itemId: 'm1', text: 'a' }]),
      asked('also'),
      updates([step(2), { kind: 'agent_message_chunk', itemId: 'm2', text: 'b' }], 4),
      { type: 'queue', sessionId: 's1', prompts: [] },
    );
    expect(words(state)).toEqual([['Hi', 'running', 'm1,steer also,m2']]);
  });

  it('what was steered is told when it is read, and stands there once', () => {
    const read: Update = { kind: 'state', state: 'user_input', iteration: 1, promptId: 'also', prompt: text('also') };
    const begun = [STARTED, step(1), { kind: 'agent_message_chunk', itemId: 'm1', text: 'a' }] satisfies Update[];
    const next = updates([read, step(2), { kind: 'agent_message_chunk', itemId: 'm2', text: 'b' }], 4);
    const nothing: ToView = { type: 'queue', sessionId: 's1', prompts: [] };
    const shown = [['Hi', 'running', 'm1,steer also,m2']];
    expect(words(run(OPEN, updates(begun), asked('also'), next, nothing))).toEqual(shown);
    expect(words(run(OPEN, updates(begun), asked('also'), nothing, next))).toEqual(shown);
    expect(words(run(OPEN, updates(begun), next))).toEqual(shown);
  });

  it('a prompt that the server put behind others is in the line, not on the page', () => {
    const queue: ToView = {
      type: 'queue',
      sessionId: 's1',
      prompts: [{ promptId: 'new', prompt: text('new'), kind: 'queue' }],
    };
    const sending: Local = { type: 'sending', promptId: 'new', prompt: text('new'), at: AT };
    const state = run(OPEN, sending, updates([STARTED]), queue);
    expect(words(state)).toEqual([['Hi', 'running', '']]);
    expect(state.queue.map((prompt) => prompt.promptId)).toEqual(['new']);
  });

  it('a turn that begins stands before what is still being sent', () => {
    const sending: Local = { type: 'sending', promptId: 'new', prompt: text('new'), at: AT };
    const state = run(OPEN, sending, updates([STARTED]));
    expect(words(state)).toEqual([
      ['Hi', 'running', ''],
      ['new', 'sending', ''],
    ]);
    expect(isBusy(state)).toBe(true);
  });
});

describe('the rest', () => {
  it('several changes of one file are one, summed; a new file stays new', () => {
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

  it('live output keeps its end only', () => {
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

  it('wherever the border of two pages lies, the turns are the same', () => {
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

  it('a turn that no process finished is shown as interrupted', () => {
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

  it('a session opened is empty until it is loaded', () => {
    const state = run(OPEN, updates([STARTED]), { type: 'opening', sessionId: 's2', draft: EMPTY_DRAFT, mode: 'ask' });
    expect(state).toMatchObject({ opening: 's2', session: null, turns: [], toggles: {} });
  });

  it('the session of the scenes is the one under test', () => {
    expect(run(OPEN).session).toEqual({ ...SESSION, busy: false });
  });
});
