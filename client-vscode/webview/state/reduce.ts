/** The reducer of the chat view: a pure function from a state and a message or action to the next state. */

import type {
  ApprovalRequest,
  ContentBlock,
  QueuedPrompt,
  SessionLoadResult,
  StopReason,
  UpdateParams,
} from '../../src/protocol.gen.ts';
import { promptText } from '../common/format.ts';
import type { ToView } from '../messages.ts';
import { announce, type Entry, type PendingApproval, type Prose, runningTurn, type State, type Turn } from './state.ts';
import { applyUpdate, prependItems, turnsFrom, withoutRetry } from './turns.ts';

/** Actions of the user that the view shows before the host confirms them. */
export type LocalAction =
  | { type: 'sending'; promptId: string; prompt: readonly ContentBlock[]; at: number }
  | { type: 'withdrawn'; promptId: string }
  | { type: 'stopping'; at: number }
  | { type: 'retrying'; turnId: string }
  | { type: 'answering'; approvalId: string; answer: 'allow' | 'deny' }
  | { type: 'undoing'; turnId: string; direction: 'undo' | 'redo' }
  | { type: 'toggle'; key: string; open: boolean }
  | { type: 'olderRequested' }
  | { type: 'keepWaiting'; at: number }
  | { type: 'dismissRestored' }
  | { type: 'dismissCrash' };

export function reduce(state: State, action: ToView | LocalAction): State {
  switch (action.type) {
    case 'hello':
      return { ...state, mac: action.mac, trusted: action.trusted };
    case 'trusted':
      return { ...state, trusted: action.trusted };
    case 'server':
      return { ...state, server: action.server };
    case 'task':
      return { ...state, task: action.task };
    case 'opening':
      return {
        ...state,
        opening: action.sessionId,
        openError: null,
        newSessionMode: action.mode,
        session: null,
        turns: action.keepUnsent ? withUnsent([], state.turns) : [],
        queue: [],
        oldest: '',
        hasMore: false,
        loadingOlder: false,
        lastSeq: 0,
        gap: false,
        context: null,
        stopping: null,
        // After a crash the same session is opened again, possibly more than once: the banner stays until then.
        crashed:
          state.crashed && action.sessionId !== null && (state.session?.id ?? state.opening) === action.sessionId,
        toggles: {},
        restored: null,
      };
    case 'loaded':
      return { ...withPage(state, action.page, action.at), queue: action.queue };
    case 'refreshed':
      return action.page.session.id === state.session?.id ? withPage(state, action.page, action.at) : state;
    case 'openFailed':
      if (state.opening !== action.sessionId) return state;
      return announce(
        { ...state, opening: null, openError: { sessionId: action.sessionId, message: action.message } },
        'failed',
        action.message,
      );
    case 'began':
      return {
        ...state,
        session: action.session,
        opening: null,
        openError: null,
        lastSeq: 0,
      };
    case 'older':
      if (action.sessionId !== state.session?.id) return state;
      return {
        ...state,
        turns: prependItems(state.turns, action.items),
        oldest: action.items[0]?.id ?? state.oldest,
        hasMore: action.hasMore,
        loadingOlder: false,
      };
    case 'olderRequested':
      return { ...state, loadingOlder: true };
    case 'updates':
      return action.updates.reduce((before, update) => applyInOrder(before, update, action.at), state);
    case 'session':
      if (action.session.id !== state.session?.id) return state;
      return { ...state, session: action.session };
    case 'pending':
      return { ...state, pending: action.files };
    case 'looking':
      return { ...state, looking: action.looking };
    case 'context':
      return { ...state, context: action.context };
    case 'approval': {
      const { request } = action;
      const others = state.approvals.filter((pending) => pending.request.approvalId !== request.approvalId);
      return announce(
        { ...state, approvals: [...others, { request }] },
        'approval',
        request.call.title || request.call.name,
      );
    }
    case 'resolved': {
      const { approvalId, optionId } = action.resolved;
      const found = state.approvals.find((pending) => pending.request.approvalId === approvalId);
      if (!found) return state;
      const kind = callKind(found.request);
      const allowedCounts =
        optionId === 'allow_once'
          ? { ...state.allowedCounts, [kind]: (state.allowedCounts[kind] ?? 0) + 1 }
          : state.allowedCounts;
      return { ...state, allowedCounts, approvals: state.approvals.filter((pending) => pending !== found) };
    }
    case 'answerRefused':
      return mapApproval(state, action.approvalId, ({ answering: _, ...pending }) => ({
        ...pending,
        fault: action.message,
      }));
    case 'amended':
      return mapApproval(state, action.approvalId, ({ fault: _, ...pending }) => ({
        ...pending,
        amended: action.amended,
      }));
    case 'answering':
      return mapApproval(state, action.approvalId, (pending) => ({ ...pending, answering: action.answer }));
    case 'ask':
      return announce({ ...state, asks: [...state.asks, action.ask] }, 'asked', action.ask.question);
    case 'askOver':
      return { ...state, asks: state.asks.filter((ask) => ask.id !== action.id) };
    case 'queue':
      return action.sessionId === state.session?.id ? withQueue(state, action.prompts) : state;
    case 'withdrawn':
      return { ...state, queue: state.queue.filter((prompt) => prompt.promptId !== action.promptId) };
    case 'sending': {
      const turn: Turn = {
        key: action.promptId,
        id: '',
        promptId: action.promptId,
        prompt: action.prompt,
        status: 'sending',
        began: action.at,
        entries: [],
        files: [],
        plan: [],
        undo: 'none',
        conflicts: [],
      };
      return {
        ...state,
        turns: [...withoutRefused(state.turns, turn), turn],
        lastUpdateAt: action.at,
        crashed: false,
        restored: null,
      };
    }
    case 'sendFailed':
      return {
        ...state,
        stopping: runningTurn(state) ? state.stopping : null,
        queue: state.queue.filter((prompt) => prompt.promptId !== action.promptId),
        turns: state.turns.map((turn) =>
          turn.promptId === action.promptId && turn.status === 'sending'
            ? { ...turn, status: 'refused', refusal: action.message }
            : turn,
        ),
      };
    case 'answered':
      return answered(state, action.promptId, action.result.reply, action.result.stopReason);
    case 'stopping':
      return { ...state, stopping: action.at };
    case 'retrying':
      return mapTurn(state, action.turnId, withoutRetry);
    case 'keepWaiting':
      return { ...state, lastUpdateAt: action.at };
    case 'undoing':
      return mapTurn(state, action.turnId, (turn) => ({
        ...turn,
        undo: action.direction === 'undo' ? 'undoing' : 'redoing',
      }));
    case 'undone': {
      const { changes, refused, commands = [] } = action.result;
      const nothing = changes.length === 0 && (refused.length > 0 || commands.length > 0);
      const before = action.direction === 'undo' ? 'none' : 'undone';
      const after = action.direction === 'undo' ? 'undone' : 'none';
      return mapTurn(state, action.turnId, (turn) => ({ ...turn, undo: nothing ? before : after, conflicts: refused }));
    }
    case 'undoFailed':
      return mapTurn(state, action.turnId, (turn) => ({
        ...turn,
        undo: turn.undo === 'redoing' ? 'undone' : 'none',
        conflicts: [{ uri: '', reason: action.message }],
      }));
    case 'model':
      return { ...state, model: action.model };
    case 'mode':
      return { ...state, newSessionMode: action.mode };
    case 'commands':
      return { ...state, commands: action.commands };
    case 'recent':
      return { ...state, recent: action.sessions };
    case 'toggle':
      return { ...state, toggles: { ...state.toggles, [action.key]: action.open } };
    case 'restored':
      return { ...state, restored: action.restored };
    case 'dismissRestored':
      return { ...state, restored: null };
    case 'crashed':
      return { ...state, crashed: true, stopping: null };
    case 'dismissCrash':
      return { ...state, crashed: false };
    case 'mentions':
    case 'foundMentions':
    case 'attach':
    case 'compose':
    case 'retry':
    case 'find':
    case 'focus':
    case 'reveal':
      return state; // handled in main.tsx
    default:
      return action satisfies never;
  }
}

/** Replaces the transcript with the newest page of the session. */
function withPage(state: State, page: SessionLoadResult, at: number): State {
  const same = state.session?.id === page.session.id;
  return {
    ...state,
    session: page.session,
    opening: null,
    turns: withUnsent(turnsFrom(page.items, page.session.busy), state.turns),
    oldest: page.items[0]?.id ?? '',
    hasMore: page.hasMore,
    loadingOlder: false,
    lastSeq: page.lastSeq,
    gap: false,
    stopping: page.session.busy ? state.stopping : null,
    lastUpdateAt: at,
    toggles: same ? state.toggles : {},
  };
}

/** Keeps the prompts that were sent while the session was loading, or that failed: no page contains them. */
function withUnsent(loaded: readonly Turn[], before: readonly Turn[]): readonly Turn[] {
  const loadedIds = new Set(loaded.map((turn) => turn.promptId));
  const unsent = before.filter(({ status }) => status === 'sending' || status === 'refused');
  return [...loaded, ...unsent.filter((turn) => !loadedIds.has(turn.promptId))];
}

/** Removes the failed attempt when the same prompt is sent again. */
function withoutRefused(turns: readonly Turn[], sent: Turn): readonly Turn[] {
  const isSamePrompt = ({ status, prompt }: Turn) =>
    status === 'refused' && promptText(prompt) === promptText(sent.prompt);
  return turns.filter((turn) => !isSamePrompt(turn));
}

/** Groups similar calls: by tool, and for commands by their first word. */
export function callKind({ call, preview }: ApprovalRequest): string {
  return preview.kind === 'command' ? `${call.name} ${preview.command.trim().split(/\s/, 1)[0]}` : call.name;
}

function mapApproval(state: State, approvalId: string, change: (pending: PendingApproval) => PendingApproval): State {
  const approvals = state.approvals.map((one) => (one.request.approvalId === approvalId ? change(one) : one));
  return { ...state, approvals };
}

function mapTurn(state: State, turnId: string, change: (turn: Turn) => Turn): State {
  return { ...state, turns: state.turns.map((turn) => (turn.id === turnId ? change(turn) : turn)) };
}

/** Replaces the queue. A steered prompt that left the queue while a turn runs was read, so it becomes part of the turn. */
function withQueue(state: State, prompts: readonly QueuedPrompt[]): State {
  const waiting = new Set(prompts.map((prompt) => prompt.promptId));
  const read = state.queue.filter((prompt) => prompt.kind === 'steer' && !waiting.has(prompt.promptId));
  const running = runningTurn(state);
  // A sent prompt that the server has queued is shown only in the queue.
  const turns = state.turns.filter((turn) => turn.status !== 'sending' || !waiting.has(turn.promptId ?? ''));
  const next = { ...state, queue: prompts, turns: turns.length === state.turns.length ? state.turns : turns };
  if (read.length === 0) return next;
  // If no turn runs, the prompt was read at the end of the last turn or will start its own: its answer decides.
  return running ? withSteers(next, running.id, read) : { ...next, queue: [...read, ...prompts] };
}

function withSteers(state: State, turnId: string, read: readonly QueuedPrompt[]): State {
  const entries = read.map(({ promptId, prompt }): Entry => ({ kind: 'steer', id: promptId, prompt }));
  return mapTurn(state, turnId, (turn) => ({
    ...turn,
    entries: turn.entries.toSpliced(turn.step ?? turn.entries.length, 0, ...entries),
  }));
}

/** Applies an update in order: ignores known ones, and after a gap ignores all until the session is loaded again. */
function applyInOrder(state: State, update: UpdateParams, at: number): State {
  if (update.sessionId !== state.session?.id || state.gap || update.seq <= state.lastSeq) return state;
  if (update.seq > state.lastSeq + 1) return { ...state, gap: true };
  return applyUpdate({ ...state, lastSeq: update.seq, lastUpdateAt: at }, update, at);
}

/** Handles the answer to a prompt request: ends a turn for which no update was sent. */
function answered(state: State, promptId: string, reply: string | undefined, stopReason: StopReason): State {
  const turns = state.turns.flatMap((turn): Turn[] => {
    if (turn.promptId !== promptId || turn.status !== 'sending') return [turn];
    if (reply !== undefined) {
      const prose: Prose = { kind: 'message', id: `${promptId}.reply`, text: reply };
      return [{ ...turn, status: 'ended', entries: [prose] }];
    }
    return stopReason === 'cancelled' ? [] : [{ ...turn, status: 'interrupted' }];
  });
  const next = { ...state, turns, queue: state.queue.filter((prompt) => prompt.promptId !== promptId) };
  const read = state.queue.filter((prompt) => prompt.promptId === promptId && prompt.kind === 'steer');
  const last = state.turns.findLast((turn) => turn.status !== 'sending');
  return last && stopReason !== 'cancelled' ? withSteers(next, last.id, read) : next;
}
