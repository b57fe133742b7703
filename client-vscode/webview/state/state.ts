/** The state of the chat view. The host owns approvals, questions, session metadata and context usage; it sends changes. */

import type {
  ApprovalRequest,
  ClaimItem,
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
import type {
  Ask,
  ContextUsage,
  Looking,
  ModelState,
  PendingFile,
  Restored,
  ServerState,
  TaskState,
} from '../messages.ts';

export interface Prose {
  kind: 'message' | 'thought';
  id: string;
  text: string;
  /** when its first and its latest chunk arrived, in ms; unknown in loaded transcripts */
  began?: number;
  grew?: number;
}

export interface Call {
  kind: 'tool_call';
  id: string;
  call: ToolCall;
  /** the end of the live output */
  progress: string;
  /** the arguments that have been streamed so far, as JSON text */
  written: string;
}

export interface Steer {
  kind: 'steer';
  id: string;
  prompt: readonly ContentBlock[];
}

export type Entry = Prose | Call | Steer | NoticeItem | ClaimItem | CompactionItem;

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
  /** identifies the turn's DOM nodes; stays the same when the server assigns the turn id */
  key: string;
  id: string;
  promptId?: string;
  prompt: readonly ContentBlock[];
  /** the id of the prompt's item in a loaded transcript */
  promptItem?: string;
  status: 'sending' | 'refused' | 'running' | 'ended' | 'interrupted';
  refusal?: string;
  began?: number;
  ended?: number;
  entries: readonly Entry[];
  /** the index in `entries` where the newest step began; steered prompts are read there */
  step?: number;
  files: readonly ChangedFile[];
  plan: readonly PlanEntry[];
  /** when the server will ask the provider again, and why the last request failed */
  retry?: { at: number; cause?: FailureKind };
  usage?: Usage;
  end?: TurnEnd;
  undo: 'none' | 'undoing' | 'undone' | 'redoing';
  /** files that the last undo or redo skipped */
  conflicts: UndoResult['refused'];
}

/** A pending approval, with what the view knows about it. */
export interface PendingApproval {
  request: ApprovalRequest;
  /** the answer that was pressed in this view and is not confirmed yet */
  answering?: 'allow' | 'deny';
  /** why the last answer, or its rule, was not accepted */
  fault?: string;
  /** the user has changed the proposal in the diff editor */
  amended?: boolean;
}

/** A message for screen readers; `n` grows by one with each message. */
export interface Announcement {
  n: number;
  what: PoliteNews | UrgentNews;
  detail: string;
}

type PoliteNews = 'working' | 'ready' | 'stopped' | 'callFailed';
type UrgentNews = 'approval' | 'failed' | 'asked';

export interface State {
  server: ServerState;
  task: TaskState | null;
  trusted: boolean;
  mac: boolean;
  session: Session | null;
  /** the id of the session that is being loaded */
  opening: string | null;
  /** a session that could not be loaded, and why */
  openError: { sessionId: string; message: string } | null;
  newSessionMode: Mode;
  turns: readonly Turn[];
  /** the id of the oldest item that is loaded */
  oldest: string;
  hasMore: boolean;
  loadingOlder: boolean;
  lastSeq: number;
  /** an update was missed, so the session has to be loaded again */
  gap: boolean;
  approvals: readonly PendingApproval[];
  asks: readonly Ask[];
  queue: readonly QueuedPrompt[];
  /** files with changes that the user has neither kept nor undone */
  pending: readonly PendingFile[];
  context: ContextUsage | null;
  /** what goes with the next prompt */
  looking: Looking | null;
  stopping: number | null;
  /** when the last update of the running turn arrived */
  lastUpdateAt: number;
  model: ModelState | null;
  commands: readonly Command[];
  recent: readonly Session[];
  /** rows that the user opened or closed */
  toggles: Readonly<Record<string, boolean>>;
  /** how often each kind of call was allowed once; after the third time the card offers a rule */
  allowedCounts: Readonly<Record<string, number>>;
  crashed: boolean;
  /** the session in view is a copy that ends before later turns, which were undone */
  restored: Restored | null;
  /** the latest polite and the latest urgent message for screen readers */
  polite: Announcement;
  urgent: Announcement;
}

export const INITIAL: State = {
  server: { status: 'starting' },
  task: null,
  trusted: true,
  mac: false,
  session: null,
  opening: null,
  openError: null,
  newSessionMode: 'ask',
  turns: [],
  oldest: '',
  hasMore: false,
  loadingOlder: false,
  lastSeq: 0,
  gap: false,
  approvals: [],
  asks: [],
  queue: [],
  pending: [],
  context: null,
  looking: null,
  stopping: null,
  lastUpdateAt: 0,
  model: null,
  commands: [],
  recent: [],
  toggles: {},
  allowedCounts: {},
  crashed: false,
  restored: null,
  polite: { n: 0, what: 'ready', detail: '' },
  urgent: { n: 0, what: 'failed', detail: '' },
};

/** Whether a turn runs, in this window or in another one. */
export function isBusy(state: State): boolean {
  const last = state.turns.at(-1);
  return last?.status === 'sending' || last?.status === 'running';
}

/** Whether a prompt can be sent now: it waits for a server that is starting or being installed. */
export function acceptsPrompts({ server }: State): boolean {
  switch (server.status) {
    case 'ready':
    case 'starting':
    case 'absent':
    case 'installing':
      return true;
    case 'missing':
      return server.canInstall;
    case 'restarting':
    case 'stopped':
      return false;
    default:
      return server satisfies never;
  }
}

export function currentMode(state: State): Mode {
  return state.session?.mode ?? state.newSessionMode;
}

export function runningTurn(state: State): Turn | undefined {
  return state.turns.findLast((turn) => turn.status === 'running');
}

/** The pending approvals of the session in view, in the order of their calls. */
export function sessionApprovals(state: State): readonly PendingApproval[] {
  const mine = state.approvals.filter((pending) => pending.request.sessionId === state.session?.id);
  if (mine.length < 2) return mine;
  const positions = new Map(state.turns.flatMap((turn) => turn.entries).map((entry, index) => [entry.id, index]));
  const positionOf = ({ request }: PendingApproval) => positions.get(request.call.id) ?? Number.MAX_SAFE_INTEGER;
  return mine.toSorted((a, b) => positionOf(a) - positionOf(b));
}

export function announce(state: State, what: Announcement['what'], detail = ''): State {
  if (what === 'approval' || what === 'failed' || what === 'asked') {
    return { ...state, urgent: { n: state.urgent.n + 1, what, detail } };
  }
  return { ...state, polite: { n: state.polite.n + 1, what, detail } };
}
