/** The chat as a value. */

import type {
  ApprovalRequest,
  Command,
  CompactionItem,
  ContentBlock,
  Failure,
  FailureKind,
  Mode,
  NoticeItem,
  PlanEntry,
  QueuedPrompt,
  Receipt,
  Session,
  StopReason,
  ToolCall,
  UndoResult,
  Usage,
} from '../../src/protocol.gen.ts';
import type { Ask, ModelState, ServerState } from '../messages.ts';

export interface Prose {
  kind: 'message' | 'thought';
  id: string;
  text: string;
  /** when its first and its latest piece came, in ms; unknown in loaded transcripts */
  began?: number;
  grew?: number;
}

export interface Call {
  kind: 'tool_call';
  id: string;
  call: ToolCall;
  /** live output, the end of it */
  progress: string;
  /** arguments as the model writes them */
  written: string;
}

export interface Steer {
  kind: 'steer';
  id: string;
  prompt: readonly ContentBlock[];
}

export type Entry = Prose | Call | Steer | NoticeItem | CompactionItem;

export interface ChangedFile {
  uri: string;
  change: 'created' | 'edited' | 'deleted' | 'renamed';
  added: number;
  removed: number;
}

export interface TurnEnd {
  stopReason: StopReason;
  usage: Usage;
  error?: Failure;
  receipt?: Receipt;
}

export interface Turn {
  /** names the turn's nodes, and never changes, not even when the server names the turn */
  key: string;
  id: string;
  promptId?: string;
  prompt: readonly ContentBlock[];
  /** the item of a loaded transcript that is taken for the prompt */
  promptItem?: string;
  status: 'sending' | 'refused' | 'running' | 'ended' | 'interrupted';
  refusal?: string;
  began?: number;
  ended?: number;
  entries: readonly Entry[];
  /** where in the entries the newest step of the agent began: what was steered is read there */
  step?: number;
  files: readonly ChangedFile[];
  plan: readonly PlanEntry[];
  /** when the server asks the provider again, and what went wrong; it waits until then */
  retry?: { at: number; cause?: FailureKind };
  usage?: Usage;
  end?: TurnEnd;
  undo: 'none' | 'undoing' | 'undone' | 'redoing';
  /** files the last undo or redo left alone */
  conflicts: UndoResult['refused'];
}

export interface Pending {
  request: ApprovalRequest;
  at: number;
  /** what the user pressed here; the server has not said yet that it holds */
  answering?: 'allow' | 'deny';
  /** why the answer, or the rule it was to be allowed by, cannot be one */
  fault?: string;
  /** the user has changed the proposal in the diff editor */
  amended?: boolean;
}

/** What a screen reader should hear; `n` grows by one with each. */
export interface Said {
  n: number;
  what: QuietNews | UrgentNews;
  detail: string;
}

type QuietNews = 'working' | 'ready' | 'stopped' | 'callFailed';
type UrgentNews = 'approval' | 'failed' | 'asked';

export interface State {
  server: ServerState;
  trusted: boolean;
  mac: boolean;
  session: Session | null;
  /** a session is on its way */
  opening: string | null;
  /** a session that could not be loaded, and why */
  unopened: { sessionId: string; message: string } | null;
  mode: Mode;
  turns: readonly Turn[];
  /** the id of the first item of the transcript that is here */
  oldest: string;
  hasMore: boolean;
  loadingOlder: boolean;
  lastSeq: number;
  /** an update was missed: the view asks for the session again */
  gap: boolean;
  approvals: readonly Pending[];
  /** questions whose card is in sight */
  seen: readonly string[];
  /** and those whose card is out of sight above it */
  above: readonly string[];
  asks: readonly Ask[];
  queue: readonly QueuedPrompt[];
  context: { used: number; window?: number } | null;
  stopping: number | null;
  /** when the running turn last gave a sign */
  heard: number;
  model: ModelState | null;
  commands: readonly Command[];
  recent: readonly Session[];
  /** rows the user opened or closed by hand */
  toggles: Readonly<Record<string, boolean>>;
  /** how often a kind of call was allowed once, to offer a rule after the third time */
  allowed: Readonly<Record<string, number>>;
  crashed: boolean;
  /** the latest quiet and the latest urgent news: neither covers the other */
  quiet: Said;
  urgent: Said;
}

export const INITIAL: State = {
  server: { status: 'starting' },
  trusted: true,
  mac: false,
  session: null,
  opening: null,
  unopened: null,
  mode: 'ask',
  turns: [],
  oldest: '',
  hasMore: false,
  loadingOlder: false,
  lastSeq: 0,
  gap: false,
  approvals: [],
  seen: [],
  above: [],
  asks: [],
  queue: [],
  context: null,
  stopping: null,
  heard: 0,
  model: null,
  commands: [],
  recent: [],
  toggles: {},
  allowed: {},
  crashed: false,
  quiet: { n: 0, what: 'ready', detail: '' },
  urgent: { n: 0, what: 'failed', detail: '' },
};

/** Whether a turn runs here. What runs in another window is stopped, steered and queued for there. */
export function isBusy(state: State): boolean {
  const last = state.turns.at(-1);
  return last?.status === 'sending' || (last?.status === 'running' && !state.session?.elsewhere);
}

export function runningTurn(state: State): Turn | undefined {
  return state.turns.findLast((turn) => turn.status === 'running');
}

/** The questions of the session in view, in the order of the calls they are about. */
export function questions(state: State): readonly Pending[] {
  const mine = state.approvals.filter((pending) => pending.request.sessionId === state.session?.id);
  if (mine.length < 2) return mine;
  const place = new Map(state.turns.flatMap((turn) => turn.entries).map((entry, index) => [entry.id, index]));
  const of = ({ request }: Pending) => place.get(request.call.id) ?? Number.MAX_SAFE_INTEGER;
  return mine.toSorted((a, b) => of(a) - of(b));
}

export function say(state: State, what: Said['what'], detail = ''): State {
  if (what === 'approval' || what === 'failed' || what === 'asked') {
    return { ...state, urgent: { n: state.urgent.n + 1, what, detail } };
  }
  return { ...state, quiet: { n: state.quiet.n + 1, what, detail } };
}
