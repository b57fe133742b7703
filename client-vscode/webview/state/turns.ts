/** Builds turns from transcript items and session updates: the part of the reducer that knows the protocol. */

import type { Item, UpdateParams } from '../../src/protocol.gen.ts';
import { announce, type Call, type ChangedFile, type Entry, type Prose, type State, type Turn } from './state.ts';

/** Maximum length of a call's live output; only its end is kept. */
const MAX_PROGRESS = 32_000;

export function turnsFrom(items: readonly Item[], busy: boolean): readonly Turn[] {
  const turns: Turn[] = [];
  for (const item of items) {
    const last = turns.at(-1);
    if (last?.id === item.turnId) turns[turns.length - 1] = addItem(last, item);
    else turns.push(addItem(emptyTurn(item.turnId), item));
  }
  return turns.map((turn, index) => {
    if (turn.end) return turn;
    return { ...turn, status: busy && index === turns.length - 1 ? 'running' : 'interrupted' };
  });
}

/** Adds older items, and joins a turn that was split between two pages. */
export function prependItems(turns: readonly Turn[], items: readonly Item[]): readonly Turn[] {
  const older = turnsFrom(items, false);
  const seam = older.at(-1);
  const first = turns[0];
  if (!seam || !first || seam.id !== first.id) return [...older, ...turns];
  // If a page started with a steered prompt, that prompt was mistaken for the prompt of the turn.
  const steered: Entry[] =
    first.promptItem === undefined ? [] : [{ kind: 'steer', id: first.promptItem, prompt: first.prompt }];
  const { promptItem: _, ...rest } = first;
  const joined: Turn = {
    ...rest,
    prompt: seam.prompt,
    entries: [...seam.entries, ...steered, ...first.entries],
    files: first.files.reduce(mergeFile, seam.files),
    plan: first.plan.length > 0 ? first.plan : seam.plan,
  };
  if (seam.promptItem !== undefined) joined.promptItem = seam.promptItem;
  if (seam.promptId !== undefined) joined.promptId = seam.promptId;
  if (seam.began !== undefined) joined.began = seam.began;
  return [...older.slice(0, -1), joined, ...turns.slice(1)];
}

export function applyUpdate(state: State, params: UpdateParams, at: number): State {
  const { update, turnId } = params;
  switch (update.kind) {
    case 'turn_started': {
      const started = startTurn(state, turnId, update.prompt, update.promptId, at);
      return announce({ ...started, stopping: null }, 'working');
    }
    case 'session_info':
      return { ...state, session: update.session };
    case 'usage':
      return inTurn(state, turnId, (turn) => ({ ...turn, usage: update.usage }));
    case 'state':
      if (update.prompt) return insertSteer(state, turnId, update.promptId ?? `steer.${params.seq}`, update.prompt);
      // Only the start of a step matters here, because steered prompts are read there.
      if (update.state !== 'assistant') return state;
      return inTurn(state, turnId, (turn) => ({ ...withoutRetry(turn), step: turn.entries.length }));
    case 'agent_message_chunk':
    case 'agent_thought_chunk': {
      const kind = update.kind === 'agent_message_chunk' ? 'message' : 'thought';
      return inTurn(state, turnId, (turn) => ({
        ...withoutRetry(turn),
        entries: appendText(turn.entries, kind, update.itemId, update.text, at),
      }));
    }
    case 'tool_call': {
      const next = inTurn(state, turnId, (turn) => ({ ...turn, entries: upsertCall(turn.entries, update.call) }));
      return update.call.status === 'failed' ? announce(next, 'callFailed', update.call.title) : next;
    }
    case 'tool_call_args_chunk':
      return inTurn(state, turnId, (turn) => ({
        ...turn,
        entries: mapCall(turn.entries, update.callId, (call) => ({ ...call, written: call.written + update.text })),
      }));
    case 'tool_progress':
      return inTurn(state, turnId, (turn) => ({
        ...turn,
        entries: mapCall(turn.entries, update.callId, (call) => ({
          ...call,
          progress: tail(call.progress + update.text),
        })),
      }));
    case 'plan':
      return inTurn(state, turnId, (turn) => ({ ...turn, plan: update.entries }));
    case 'file_changed':
      return inTurn(state, turnId, (turn) => ({ ...turn, files: mergeFile(turn.files, update) }));
    case 'review_changed': // the host lists what is still pending
      return state;
    case 'notice': {
      const { retryAfter, ...notice } = update;
      const next = inTurn(state, turnId, (turn) => ({
        ...withoutRetry(turn),
        ...(retryAfter !== undefined && {
          retry: { at: at + retryAfter * 1000, ...(notice.cause && { cause: notice.cause }) },
        }),
        entries: [...turn.entries, { ...notice, id: `notice.${params.seq}`, turnId, seq: params.seq }],
      }));
      return notice.level === 'error' ? announce(next, 'failed', notice.message) : next;
    }
    case 'claim':
      return inTurn(state, turnId, (turn) => ({
        ...turn,
        entries: [...turn.entries, { ...update, id: `claim.${params.seq}`, turnId, seq: params.seq }],
      }));
    case 'compaction':
      return inTurn(state, turnId, (turn) => ({
        ...turn,
        entries: [...turn.entries, { ...update, id: `compaction.${params.seq}`, turnId, seq: params.seq }],
      }));
    case 'turn_ended': {
      const { kind: _, ...end } = update;
      const next = inTurn({ ...state, stopping: null }, turnId, (turn) => ({
        ...withoutRetry(turn),
        status: 'ended',
        ended: at,
        end,
        usage: update.usage,
      }));
      if (end.error) return announce(next, 'failed', end.error.message);
      return announce(next, end.stopReason === 'cancelled' ? 'stopped' : 'ready');
    }
    default:
      return update satisfies never;
  }
}

/** Sums the added and removed lines of a file that changed several times. A created file stays created. */
export function mergeFile(files: readonly ChangedFile[], change: ChangedFile): readonly ChangedFile[] {
  const before = files.find((file) => file.uri === change.uri);
  const { uri, added, removed } = change;
  if (!before) return [...files, { uri, change: change.change, added, removed }];
  const kind = before.change === 'created' && change.change === 'edited' ? 'created' : change.change;
  const merged = { uri, change: kind, added: before.added + added, removed: before.removed + removed };
  return files.map((file) => (file === before ? merged : file));
}

/** The turn no longer waits before the server asks the provider again. */
export function withoutRetry(turn: Turn): Turn {
  if (turn.retry === undefined) return turn;
  const { retry: _, ...rest } = turn;
  return rest;
}

function emptyTurn(id: string): Turn {
  return {
    key: id,
    id,
    prompt: [],
    status: 'interrupted',
    entries: [],
    files: [],
    plan: [],
    undo: 'none',
    conflicts: [],
  };
}

/** Whether the turn has no content yet: the prompt of a turn is its first item, later prompts were steered. */
function isEmpty({ prompt, entries, files, plan }: Turn): boolean {
  return prompt.length === 0 && entries.length === 0 && files.length === 0 && plan.length === 0;
}

function addItem(turn: Turn, item: Item): Turn {
  switch (item.kind) {
    case 'prompt': {
      if (!isEmpty(turn)) {
        return { ...turn, entries: [...turn.entries, { kind: 'steer', id: item.id, prompt: item.prompt }] };
      }
      const started: Turn = { ...turn, prompt: item.prompt, promptItem: item.id };
      if (item.promptId !== undefined) started.promptId = item.promptId;
      if (item.at !== undefined) started.began = Date.parse(item.at);
      return started;
    }
    case 'message':
    case 'thought':
      return { ...turn, entries: [...turn.entries, { kind: item.kind, id: item.id, text: item.text }] };
    case 'tool_call':
      return { ...turn, entries: upsertCall(turn.entries, item.call) };
    case 'notice':
    case 'claim':
    case 'compaction':
      return { ...turn, entries: [...turn.entries, item] };
    case 'plan':
      return { ...turn, plan: item.entries };
    case 'file_change':
      return { ...turn, files: mergeFile(turn.files, item) };
    case 'turn_end': {
      const { stopReason, usage, error, receipt } = item;
      const end = { stopReason, usage, ...(error && { error }), ...(receipt && { receipt }) };
      const ended = item.at === undefined ? {} : { ended: Date.parse(item.at) };
      return { ...turn, ...ended, status: 'ended', end, usage, undo: item.undone ? 'undone' : 'none' };
    }
    default:
      return item satisfies never;
  }
}

function startTurn(state: State, id: string, prompt: Turn['prompt'], promptId: string | undefined, at: number): State {
  const queue = state.queue.filter((queued) => queued.promptId !== promptId);
  const sending = state.turns.find((turn) => turn.status === 'sending' && turn.promptId === promptId);
  if (sending) {
    const turns = state.turns.map(
      (turn): Turn => (turn === sending ? { ...turn, id, prompt, status: 'running' } : turn),
    );
    return { ...state, queue, turns };
  }
  const turn: Turn = { ...emptyTurn(id), prompt, status: 'running', began: at };
  if (promptId !== undefined) turn.promptId = promptId;
  // Prompts that are still being sent come after turns that have started.
  const index = state.turns.findLastIndex((one) => one.status !== 'sending') + 1;
  return { ...state, queue, turns: state.turns.toSpliced(index, 0, turn) };
}

/** Inserts a steered prompt where the running turn reads it, and removes it from the queue. */
function insertSteer(state: State, turnId: string, id: string, prompt: Turn['prompt']): State {
  const queue = state.queue.filter((queued) => queued.promptId !== id);
  return inTurn({ ...state, queue }, turnId, (turn) => {
    const others = turn.entries.filter((entry) => entry.kind !== 'steer' || entry.id !== id);
    return { ...turn, entries: [...others, { kind: 'steer', id, prompt }] };
  });
}

/** Changes a turn. Searches from the end, because it is nearly always the last turn. */
function inTurn(state: State, id: string, change: (turn: Turn) => Turn): State {
  const index = state.turns.findLastIndex((turn) => turn.id === id);
  const turn = state.turns[index];
  if (!turn) {
    if (id === '') return state;
    return { ...state, turns: [...state.turns, change({ ...emptyTurn(id), status: 'running' })] };
  }
  return { ...state, turns: state.turns.with(index, change(turn)) };
}

function appendText(
  entries: readonly Entry[],
  kind: Prose['kind'],
  id: string,
  text: string,
  at: number,
): readonly Entry[] {
  const index = entries.findLastIndex((entry) => entry.id === id && entry.kind === kind);
  const found = entries[index];
  if (!found) return [...entries, { kind, id, text, began: at, grew: at }];
  const prose = found as Prose;
  return entries.with(index, { ...prose, text: prose.text + text, grew: at });
}

function upsertCall(entries: readonly Entry[], call: Call['call']): readonly Entry[] {
  const index = entries.findLastIndex((entry) => entry.kind === 'tool_call' && entry.id === call.id);
  const found = entries[index];
  if (!found) return [...entries, { kind: 'tool_call', id: call.id, call, progress: '', written: '' }];
  return entries.with(index, { ...(found as Call), call });
}

function mapCall(entries: readonly Entry[], id: string, change: (call: Call) => Call): readonly Entry[] {
  const index = entries.findLastIndex((entry) => entry.kind === 'tool_call' && entry.id === id);
  const found = entries[index];
  return found ? entries.with(index, change(found as Call)) : entries;
}

function tail(text: string): string {
  return text.length > MAX_PROGRESS ? text.slice(text.length - MAX_PROGRESS) : text;
}
