/** The one function that changes the chat. Nothing here decides, waits or reads a clock. */

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
import { type Entry, type Pending, type Prose, runningTurn, type State, say, type Turn } from './state.ts';
import { applyUpdate, goingOn, prependItems, turnsFrom } from './turns.ts';

/** What the user does in the view itself. */
export type Local =
  | { type: 'sending'; promptId: string; prompt: readonly ContentBlock[]; at: number }
  | { type: 'withdrawn'; promptId: string }
  | { type: 'stopping'; at: number }
  | { type: 'retrying'; turnId: string }
  | { type: 'answering'; approvalId: string; answer: 'allow' | 'deny' }
  | { type: 'undoing'; turnId: string; direction: 'undo' | 'redo' }
  | { type: 'toggle'; key: string; open: boolean }
  | { type: 'olderAsked' }
  | { type: 'keepWaiting'; at: number }
  | { type: 'sawCards'; approvalIds: readonly string[]; above: readonly string[] }
  | { type: 'dismissCrash' };

export function reduce(state: State, action: ToView | Local): State {
  switch (action.type) {
    case 'hello':
      return { ...state, mac: action.mac, trusted: action.trusted };
    case 'trusted':
      return { ...state, trusted: action.trusted };
    case 'server':
      return { ...state, server: action.server };
    case 'opening':
      return {
        ...state,
        opening: action.sessionId,
        unopened: null,
        mode: action.sessionId === null ? action.mode : state.mode,
        session: null,
        turns: [],
        queue: [],
        oldest: '',
        hasMore: false,
        loadingOlder: false,
        lastSeq: 0,
        gap: false,
        context: null,
        stopping: null,
        // It may be on its way already: after a crash it is opened again, and perhaps once more.
        crashed:
          state.crashed && action.sessionId !== null && (state.session?.id ?? state.opening) === action.sessionId,
        toggles: {},
      };
    case 'loaded':
      return { ...withPage(state, action.page, action.at), queue: action.queue };
    case 'refreshed':
      return action.page.session.id === state.session?.id ? withPage(state, action.page, action.at) : state;
    case 'openFailed':
      if (state.opening !== action.sessionId) return state;
      return say(
        { ...state, opening: null, unopened: { sessionId: action.sessionId, message: action.message } },
        'failed',
        action.message,
      );
    case 'began':
      return {
        ...state,
        session: action.session,
        mode: action.session.mode,
        opening: null,
        unopened: null,
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
    case 'olderAsked':
      return { ...state, loadingOlder: true };
    case 'updates':
      return action.updates.reduce((before, update) => follow(before, update, action.at), state);
    case 'session':
      if (action.session.id !== state.session?.id) return state;
      return { ...state, session: action.session, mode: action.session.mode };
    case 'approval': {
      const { request } = action;
      const others = state.approvals.filter((pending) => pending.request.approvalId !== request.approvalId);
      return say(
        { ...state, approvals: [...others, { request, at: action.at }] },
        'approval',
        request.call.title || request.call.name,
      );
    }
    case 'resolved': {
      const { approvalId, optionId } = action.resolved;
      const found = state.approvals.find((pending) => pending.request.approvalId === approvalId);
      if (!found) return state;
      const kind = kindOf(found.request);
      const allowed =
        optionId === 'allow_once' ? { ...state.allowed, [kind]: (state.allowed[kind] ?? 0) + 1 } : state.allowed;
      return { ...state, allowed, approvals: state.approvals.filter((pending) => pending !== found) };
    }
    case 'answerRefused':
      return mapPending(state, action.approvalId, ({ answering: _, ...pending }) => ({
        ...pending,
        fault: action.message,
      }));
    case 'amended':
      return mapPending(state, action.approvalId, ({ fault: _, ...pending }) => ({
        ...pending,
        amended: action.amended,
      }));
    case 'answering':
      return mapPending(state, action.approvalId, (pending) => ({ ...pending, answering: action.answer }));
    case 'ask':
      return say({ ...state, asks: [...state.asks, action.ask] }, 'asked', action.ask.question);
    case 'askOver':
      return { ...state, asks: state.asks.filter((ask) => ask.id !== action.id) };
    case 'queue':
      return action.sessionId === state.session?.id ? queued(state, action.prompts) : state;
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
      return { ...state, turns: [...withoutRefused(state.turns, turn), turn], heard: action.at, crashed: false };
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
      return mapTurn(state, action.turnId, goingOn);
    case 'sawCards':
      return { ...state, seen: action.approvalIds, above: action.above };
    case 'keepWaiting':
      return { ...state, heard: action.at };
    case 'undoing':
      return mapTurn(state, action.turnId, (turn) => ({
        ...turn,
        undo: action.direction === 'undo' ? 'undoing' : 'redoing',
      }));
    case 'undone': {
      const { changes, refused } = action.result;
      const nothing = changes.length === 0 && refused.length > 0;
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
      return { ...state, mode: action.mode };
    case 'commands':
      return { ...state, commands: action.commands };
    case 'recent':
      return { ...state, recent: action.sessions };
    case 'toggle':
      return { ...state, toggles: { ...state.toggles, [action.key]: action.open } };
    case 'crashed':
      return { ...state, crashed: true, approvals: [], asks: [], stopping: null };
    case 'dismissCrash':
      return { ...state, crashed: false };
    case 'mentions':
    case 'attach':
    case 'compose':
    case 'retry':
    case 'focus':
    case 'reveal':
      return state; // the composer's and the scroller's own business
    default:
      return action satisfies never;
  }
}

/** The newest page of a session in the place of whatever was here of it. */
function withPage(state: State, page: SessionLoadResult, at: number): State {
  const same = state.session?.id === page.session.id;
  const others = state.approvals.filter((pending) => pending.request.sessionId !== page.session.id);
  const known = new Map(state.approvals.map((pending) => [pending.request.approvalId, pending]));
  return {
    ...state,
    session: page.session,
    opening: null,
    mode: page.session.mode,
    turns: withSending(turnsFrom(page.items, page.session.busy), state.turns),
    oldest: page.items[0]?.id ?? '',
    hasMore: page.hasMore,
    loadingOlder: false,
    lastSeq: page.lastSeq,
    gap: false,
    approvals: [...others, ...page.pendingApprovals.map((request) => known.get(request.approvalId) ?? { request, at })],
    stopping: page.session.busy ? state.stopping : null,
    heard: at,
    toggles: same ? state.toggles : {},
  };
}

/** What was sent while the session was loaded, or could not be, belongs to it, though no page has it. */
function withSending(loaded: readonly Turn[], before: readonly Turn[]): readonly Turn[] {
  const known = new Set(loaded.map((turn) => turn.promptId));
  const mine = before.filter(({ status }) => status === 'sending' || status === 'refused');
  return [...loaded, ...mine.filter((turn) => !known.has(turn.promptId))];
}

/** A prompt that was refused stands no more when the same is sent again. */
function withoutRefused(turns: readonly Turn[], sent: Turn): readonly Turn[] {
  const again = ({ status, prompt }: Turn) => status === 'refused' && promptText(prompt) === promptText(sent.prompt);
  return turns.filter((turn) => !again(turn));
}

/** What a question has in common with others like it: the tool, and of a command its first word. */
export function kindOf({ call, preview }: ApprovalRequest): string {
  return preview.kind === 'command' ? `${call.name} ${preview.command.trim().split(/\s/, 1)[0]}` : call.name;
}

function mapPending(state: State, approvalId: string, change: (pending: Pending) => Pending): State {
  const approvals = state.approvals.map((one) => (one.request.approvalId === approvalId ? change(one) : one));
  return { ...state, approvals };
}

function mapTurn(state: State, turnId: string, change: (turn: Turn) => Turn): State {
  return { ...state, turns: state.turns.map((turn) => (turn.id === turnId ? change(turn) : turn)) };
}

/** The line as it is now. What was steered and waits no more while the turn runs has been read: it is part of the turn. */
function queued(state: State, prompts: readonly QueuedPrompt[]): State {
  const waiting = new Set(prompts.map((prompt) => prompt.promptId));
  const read = state.queue.filter((prompt) => prompt.kind === 'steer' && !waiting.has(prompt.promptId));
  const running = runningTurn(state);
  // A prompt that was sent, and that the server put behind others, stands in the line and nowhere else.
  const turns = state.turns.filter((turn) => turn.status !== 'sending' || !waiting.has(turn.promptId ?? ''));
  const next = { ...state, queue: prompts, turns: turns.length === state.turns.length ? state.turns : turns };
  if (read.length === 0) return next;
  // With no turn running it may have been read at the very end, or be about to begin its own: its answer will tell.
  return running ? withSteers(next, running.id, read) : { ...next, queue: [...read, ...prompts] };
}

function withSteers(state: State, turnId: string, read: readonly QueuedPrompt[]): State {
  const entries = read.map(({ promptId, prompt }): Entry => ({ kind: 'steer', id: promptId, prompt }));
  return mapTurn(state, turnId, (turn) => ({
    ...turn,
    entries: turn.entries.toSpliced(turn.step ?? turn.entries.length, 0, ...entries),
  }));
}

/** One update in its order: what is known is passed over, and a gap stops everything until a load. */
function follow(state: State, update: UpdateParams, at: number): State {
  if (update.sessionId !== state.session?.id || state.gap || update.seq <= state.lastSeq) return state;
  if (update.seq > state.lastSeq + 1) return { ...state, gap: true };
  return applyUpdate({ ...state, lastSeq: update.seq, heard: at }, update, at);
}

/** The held request of a prompt came back: the end of turns that no update announced. */
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
