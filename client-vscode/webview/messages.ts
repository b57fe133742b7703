/** What the extension host and the chat view say to each other. Wire payloads travel as they are. */

import type {
  ApprovalRequest,
  ApprovalResolved,
  Command,
  ContentBlock,
  Item,
  Mention,
  Mode,
  OptionId,
  PromptResult,
  QueuedPrompt,
  Session,
  SessionLoadResult,
  UndoResult,
  UpdateParams,
} from '../src/protocol.gen.ts';

/** The server as the user may know it. */
export type ServerState =
  | { status: 'starting' }
  | { status: 'installing'; step: string }
  | { status: 'ready'; version: string }
  | { status: 'missing'; reason: string; canInstall: boolean }
  | { status: 'restarting'; inMs: number }
  | { status: 'stopped'; reason: string };

/** In bytes: providers refuse larger images; base64 adds a third. */
export const MAX_IMAGE = 5_000_000;

/** Something attached to a prompt. */
export interface Chip {
  id: string;
  label: string;
  detail?: string;
  icon: 'file' | 'folder' | 'selection' | 'image' | 'paste' | 'problem' | 'symbol';
  block: ContentBlock;
}

/** What stands in the composer of a session and was not sent yet. */
export interface Draft {
  text: string;
  chips: readonly Chip[];
  caret: number;
  /** where in the transcript the user reads; absent: at its end */
  scroll?: Place;
}

/** A row and how far its top is from the top of the transcript, in pixels. */
export interface Place {
  row: string;
  top: number;
}

export const EMPTY_DRAFT: Draft = { text: '', chips: [], caret: 0 };

/** A question of the agent's in its own words (`user/ask`); the host names it. */
export interface Ask {
  id: string;
  sessionId: string;
  question: string;
  options: readonly string[];
}

/** A model as far as the chat shows it. */
export interface ModelState {
  current: string;
  label: string;
  available: boolean;
  reason?: string;
  seesImages?: boolean;
  /** the built-in scripted model: nothing is connected yet */
  demo: boolean;
}

export type ToView =
  | { type: 'hello'; words: Record<string, string>; mac: boolean; trusted: boolean }
  | { type: 'trusted'; trusted: boolean }
  | { type: 'server'; server: ServerState }
  /** a session is being loaded; null: there is none yet, the first prompt makes one */
  | { type: 'opening'; sessionId: string | null; draft: Draft; mode: Mode }
  | { type: 'loaded'; page: SessionLoadResult; queue: readonly QueuedPrompt[]; draft: Draft; at: number }
  /** the session in view as it is now, where no update tells */
  | { type: 'refreshed'; page: SessionLoadResult; at: number }
  /** it cannot be loaded: there is no session in view */
  | { type: 'openFailed'; sessionId: string; message: string }
  /** the first prompt made a session; what is on the screen stays */
  | { type: 'began'; session: Session }
  | { type: 'older'; sessionId: string; items: readonly Item[]; hasMore: boolean }
  | { type: 'updates'; updates: readonly UpdateParams[]; at: number }
  | { type: 'session'; session: Session }
  | { type: 'approval'; request: ApprovalRequest; at: number }
  | { type: 'resolved'; resolved: ApprovalResolved }
  /** the answer, or the rule that goes with it, cannot be one; the question still stands */
  | { type: 'answerRefused'; approvalId: string; message: string }
  /** the user has changed the proposal in the diff editor, or taken that back */
  | { type: 'amended'; approvalId: string; amended: boolean }
  | { type: 'ask'; ask: Ask }
  | { type: 'askOver'; id: string }
  | { type: 'queue'; sessionId: string; prompts: readonly QueuedPrompt[] }
  | { type: 'sendFailed'; promptId: string; message: string; draft: Draft }
  | { type: 'answered'; promptId: string; result: PromptResult }
  | { type: 'undone'; turnId: string; direction: 'undo' | 'redo'; result: UndoResult }
  | { type: 'undoFailed'; turnId: string; message: string }
  | { type: 'model'; model: ModelState }
  | { type: 'mode'; mode: Mode }
  | { type: 'commands'; commands: readonly Command[] }
  | { type: 'mentions'; query: string; mentions: readonly Mention[] }
  | { type: 'recent'; sessions: readonly Session[] }
  | { type: 'attach'; chips: readonly Chip[] }
  | { type: 'compose'; text: string; chips: readonly Chip[]; send: boolean }
  /** the last prompt once more */
  | { type: 'retry'; prompt: readonly ContentBlock[] }
  | { type: 'focus' }
  /** a question's card into sight; null: that of the first that waits */
  | { type: 'reveal'; approvalId: string | null }
  | { type: 'crashed'; at: number };

/** A file a turn changed, with the diffs of that turn, oldest first. */
export interface ReviewFile {
  uri: string;
  change: 'created' | 'edited' | 'deleted' | 'renamed';
  diffs: readonly string[];
}

/** A rule as the user wants it. */
export interface NewRule {
  tool: string;
  pattern: string;
  scope: 'session' | 'workspace' | 'user';
}

/** What the user did to a turn's later history when editing an earlier prompt. */
export type ResendFiles = 'keep' | 'undo';

export type FromView =
  | { type: 'ready' }
  | { type: 'send'; promptId: string; prompt: readonly ContentBlock[]; draft: Draft; whenBusy: 'queue' | 'steer' }
  | {
      type: 'resend';
      turnId: string;
      promptId: string;
      prompt: readonly ContentBlock[];
      laterTurns: readonly string[];
      files: ResendFiles;
    }
  | { type: 'stop' }
  /** the server waits before it asks the provider again: it need not */
  | { type: 'retryNow' }
  | { type: 'forceStop' }
  | { type: 'stopCall'; callId: string }
  | { type: 'answer'; approvalId: string; optionId: OptionId; feedback?: string; args?: Record<string, unknown> }
  /** save a rule, changed by the user, and allow what it was asked for */
  | { type: 'allowByRule'; approvalId: string; rule: NewRule }
  | { type: 'answerAsk'; id: string; answer: string | null }
  | {
      type: 'visibleCards';
      approvalIds: readonly string[];
      /** those that are in the page as well, and out of sight */
      others: readonly string[];
      focused: string | null;
    }
  | { type: 'amend'; approvalId: string }
  | { type: 'discardAmended'; approvalId: string }
  | { type: 'openDiff'; approvalId: string; file: number }
  | { type: 'openCallDiff'; uri: string; diff: string }
  | { type: 'review'; title: string; files: readonly ReviewFile[] }
  | { type: 'undo'; turnId: string; direction: 'undo' | 'redo'; rest: boolean }
  | { type: 'older'; before: string }
  | { type: 'reload' }
  | { type: 'draft'; sessionId: string | null; draft: Draft }
  | { type: 'mention'; query: string }
  | { type: 'withdraw'; promptId: string }
  /** out of the line and back into the composer */
  | { type: 'editQueued'; promptId: string; prompt: readonly ContentBlock[] }
  | { type: 'steer'; promptId: string }
  | { type: 'reorder'; promptIds: readonly string[] }
  | { type: 'openLink'; href: string }
  | { type: 'openFile'; uri: string; line?: number }
  | { type: 'openText'; text: string; language: string }
  | { type: 'copy'; text: string }
  | { type: 'insert'; text: string }
  | { type: 'terminal'; text: string }
  | { type: 'applyCode'; text: string }
  | { type: 'dropped'; uris: readonly string[] }
  | { type: 'openSession'; sessionId: string }
  | { type: 'command'; command: ViewCommand }
  | { type: 'problem'; what: string };

/** Commands of the extension that a button in the view may run. */
export type ViewCommand =
  | 'newSession'
  | 'selectModel'
  | 'selectMode'
  | 'configure'
  | 'setKey'
  | 'restart'
  | 'showLog'
  | 'install'
  | 'settings'
  | 'attachPick'
  | 'explain'
  | 'trust'
  | 'rules'
  | 'otherWaiting';
