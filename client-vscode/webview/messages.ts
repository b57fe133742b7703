/** The messages between the extension host and the chat view. Payloads of the protocol are passed on unchanged. */

import type {
  ApprovalRequest,
  ApprovalResolved,
  Command,
  ContentBlock,
  Item,
  Mention,
  MentionInText,
  Mode,
  OptionId,
  PromptResult,
  QueuedPrompt,
  Session,
  SessionLoadResult,
  UndoResult,
  UpdateParams,
} from '../src/protocol.gen.ts';

/** The state of the server process. */
export type ServerState =
  | { status: 'starting' }
  /** no server is installed; the user's first action installs it. `notes` say why found servers are not used. */
  | { status: 'absent'; notes: readonly string[] }
  /** `since` is when the installation began, in ms */
  | { status: 'installing'; step: string; percent: number; since: number }
  | { status: 'ready'; version: string }
  /** `command` mends the cause, if a command can */
  | { status: 'missing'; reason: string; canInstall: boolean; command?: string }
  | { status: 'restarting'; inMs: number }
  | { status: 'stopped'; reason: string };

/** Work of minutes, such as a download; `since` is when it began, in ms. After a failure `command` mends its cause. */
export type TaskState =
  | { status: 'running'; step: string; percent: number; since: number }
  | { status: 'failed'; reason: string; command?: string };

/** Maximum size of an image in bytes. Providers reject larger ones; base64 adds a third. */
export const MAX_IMAGE = 5_000_000;

/** An attachment of a prompt. */
export interface Chip {
  id: string;
  label: string;
  detail?: string;
  icon: 'file' | 'folder' | 'selection' | 'image' | 'paste' | 'problem' | 'symbol';
  block: ContentBlock;
}

/** The unsent content of a session's composer. */
export interface Draft {
  text: string;
  chips: readonly Chip[];
  caret: number;
  /** the scroll position in the transcript; absent at the end */
  scroll?: ScrollPosition;
}

/** A row, and the distance from the top of the transcript to the top of the row, in pixels. */
export interface ScrollPosition {
  row: string;
  top: number;
}

export const EMPTY_DRAFT: Draft = { text: '', chips: [], caret: 0 };

/** A question that the agent asks in its own words (`user/ask`). The host assigns the id. */
export interface Ask {
  id: string;
  sessionId: string;
  question: string;
  options: readonly string[];
}

/** The part of a model that the chat shows. */
export interface ModelState {
  current: string;
  label: string;
  available: boolean;
  reason?: string;
  seesImages?: boolean;
  /** the built-in scripted model, used while no model is connected */
  demo: boolean;
}

/** How much of the model's context window the session uses, in tokens. */
export interface ContextUsage {
  used: number;
  window?: number;
}

export type ToView =
  | { type: 'hello'; words: Record<string, string>; mac: boolean; trusted: boolean }
  | { type: 'trusted'; trusted: boolean }
  | { type: 'server'; server: ServerState }
  | { type: 'task'; task: TaskState | null }
  /** a session is being loaded; null shows an empty chat, where the first prompt creates a session */
  | { type: 'opening'; sessionId: string | null; draft: Draft; mode: Mode; keepUnsent?: boolean }
  | { type: 'loaded'; page: SessionLoadResult; queue: readonly QueuedPrompt[]; draft: Draft; at: number }
  /** the session in view was read again, because its turn runs in another window */
  | { type: 'refreshed'; page: SessionLoadResult; at: number }
  /** the session cannot be loaded, and no session is in view */
  | { type: 'openFailed'; sessionId: string; message: string }
  /** the first prompt created a session; the transcript stays */
  | { type: 'began'; session: Session }
  | { type: 'older'; sessionId: string; items: readonly Item[]; hasMore: boolean }
  | { type: 'updates'; updates: readonly UpdateParams[]; at: number }
  | { type: 'session'; session: Session }
  | { type: 'context'; context: ContextUsage | null }
  | { type: 'approval'; request: ApprovalRequest }
  | { type: 'resolved'; resolved: ApprovalResolved }
  /** an answer, or the rule that goes with it, was not accepted; the approval is still pending */
  | { type: 'answerRefused'; approvalId: string; message: string }
  /** the user changed the proposal in the diff editor, or discarded the changes */
  | { type: 'amended'; approvalId: string; amended: boolean }
  | { type: 'ask'; ask: Ask }
  | { type: 'askOver'; id: string }
  | { type: 'queue'; sessionId: string; prompts: readonly QueuedPrompt[] }
  | { type: 'sendFailed'; promptId: string; message: string; draft: Draft }
  | { type: 'answered'; promptId: string; result: PromptResult }
  | { type: 'undone'; turnId: string; direction: 'undo' | 'redo'; result: UndoResult }
  | { type: 'undoFailed'; turnId: string; message: string }
  | { type: 'model'; model: ModelState }
  /** the mode of new sessions */
  | { type: 'mode'; mode: Mode }
  | { type: 'commands'; commands: readonly Command[] }
  | { type: 'foundMentions'; text: string; mentions: readonly MentionInText[] }
  | { type: 'mentions'; query: string; mentions: readonly Mention[] }
  | { type: 'recent'; sessions: readonly Session[] }
  | { type: 'attach'; chips: readonly Chip[] }
  | { type: 'compose'; text: string; chips: readonly Chip[]; send: boolean }
  /** sends the last prompt again */
  | { type: 'retry'; prompt: readonly ContentBlock[] }
  | { type: 'focus' }
  /** opens the box that finds text in the conversation */
  | { type: 'find' }
  /** scrolls to the card of an approval; null for the next pending one */
  | { type: 'reveal'; approvalId: string | null }
  /** the files of the session in view with changes that the user has neither kept nor undone */
  | { type: 'pending'; files: readonly PendingFile[] }
  /** what goes with the next prompt; null without an editor */
  | { type: 'looking'; looking: Looking | null }
  | { type: 'restored'; restored: Restored }
  | { type: 'crashed'; at: number };

/** What going back to an earlier point of a conversation did, for the copy that is in view. */
export interface Restored {
  /** the session that has the later turns, and these turns, oldest first */
  from: string;
  turns: readonly string[];
  /** the number of files that were restored */
  files: number;
  refused: UndoResult['refused'];
  /** commands that ran in these turns; their effects are not undone */
  commands: readonly string[];
}

/** What the user looks at, as the chip in the composer shows it. */
export interface Looking {
  name: string;
  /** relative to the workspace */
  path: string;
  /** the lines of the selection */
  lines?: string;
  /** the user does not want it to be sent */
  dropped: boolean;
}

/** A file with pending changes. */
export interface PendingFile {
  uri: string;
  /** relative to the workspace */
  path: string;
  change: 'created' | 'edited' | 'deleted' | 'renamed';
  added: number;
  removed: number;
}

/** A file that a turn changed, and the diffs of that turn, oldest first. */
export interface ReviewFile {
  uri: string;
  change: 'created' | 'edited' | 'deleted' | 'renamed';
  diffs: readonly string[];
}

/** A rule that the user wants to save. */
export interface NewRule {
  tool: string;
  pattern: string;
  scope: 'session' | 'workspace' | 'user';
}

/** Whether file changes of later turns are kept or undone when the user edits an earlier prompt. */
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
  /** skips the wait before the server asks the provider again */
  | { type: 'retryNow' }
  | { type: 'forceStop' }
  | { type: 'stopCall'; callId: string }
  | { type: 'answer'; approvalId: string; optionId: OptionId; feedback?: string; args?: Record<string, unknown> }
  /** saves a rule that the user edited, and allows the call */
  | { type: 'allowByRule'; approvalId: string; rule: NewRule }
  | { type: 'answerAsk'; id: string; answer: string | null }
  /** allows this edit and every other edit of its turn, also those to come */
  | { type: 'allowTurnEdits'; approvalId: string }
  /** the approval whose card is visible, and those listed beside it */
  | { type: 'cards'; current: string | null; listed: readonly string[] }
  | { type: 'amend'; approvalId: string }
  | { type: 'discardAmended'; approvalId: string }
  | { type: 'openDiff'; approvalId: string; file: number }
  | { type: 'openCallDiff'; uri: string; diff: string }
  | { type: 'review'; title: string; files: readonly ReviewFile[] }
  /** goes back to the point before a turn, with files and conversation */
  | { type: 'restore'; turnId: string; prompt: readonly ContentBlock[] }
  /** leaves plan mode and carries out the plan */
  | { type: 'build' }
  /** opens a copy of the session that ends after the turn */
  | { type: 'fork'; turnId: string }
  /** applies the changes of these turns again and opens their session */
  | { type: 'redoRestored'; sessionId: string; turnIds: readonly string[] }
  | { type: 'undo'; turnId: string; direction: 'undo' | 'redo'; rest: boolean }
  /** keeps or undoes the pending changes of a file, or of the whole session */
  | { type: 'review.decide'; decision: 'keep' | 'undo'; uri?: string }
  | { type: 'review.open'; uri: string }
  | { type: 'older'; before: string }
  | { type: 'reload' }
  | { type: 'draft'; sessionId: string | null; draft: Draft }
  | { type: 'mention'; query: string }
  | { type: 'findMentions'; text: string }
  /** the list of commands opens: the user may have written new ones */
  | { type: 'loadCommands' }
  | { type: 'withdraw'; promptId: string }
  /** starts the first queued prompt, after a stop has paused the queue */
  | { type: 'resumeQueue' }
  | { type: 'clearQueue' }
  /** removes the prompt from the queue and puts it back into the composer */
  | { type: 'editQueued'; promptId: string; prompt: readonly ContentBlock[] }
  | { type: 'steer'; promptId: string }
  | { type: 'reorder'; promptIds: readonly string[] }
  | { type: 'openLink'; href: string }
  | { type: 'openFile'; uri: string; line?: number }
  | { type: 'openText'; text: string; language: string }
  | { type: 'copy'; text: string }
  | { type: 'insert'; text: string }
  | { type: 'terminal'; text: string }
  | { type: 'applyCode'; text: string; info: string }
  /** whether prompts are sent without what the user looks at */
  | { type: 'dropContext'; dropped: boolean }
  | { type: 'dropped'; uris: readonly string[] }
  | { type: 'openSession'; sessionId: string }
  | { type: 'command'; command: ViewCommand }
  | { type: 'problem'; what: string };

/** Commands of the extension that a button of the view may run. */
export type ViewCommand =
  | 'newSession'
  | 'selectModel'
  | 'selectMode'
  | 'configure'
  | 'setKey'
  | 'restart'
  | 'showLog'
  | 'install'
  | 'cancelInstall'
  | 'cancelTask'
  | 'dismissTask'
  | 'settings'
  | 'attachPick'
  | 'explain'
  | 'openSample'
  | 'trust'
  | 'rules'
  | 'otherWaiting';
