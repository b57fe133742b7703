// Generated from server/pilotfish/protocol/wire by `make generate`. Do not edit.
// Absent means none: the server sends null only where the type says so.

export const PROTOCOL_VERSION = 1;

export type Mode = "ask" | "plan" | "edit" | "auto";

export type StopReason = "end_turn" | "max_iterations" | "max_tokens" | "budget" | "refusal" | "cancelled" | "failed";

export type AgentState = "user_input" | "assistant" | "tool_execution" | "response";

export type Category = "read_only" | "research" | "write" | "execute";

export type CallStatus = "pending" | "awaiting_approval" | "in_progress" | "completed" | "failed" | "denied" | "cancelled";

export type OptionId = "allow_once" | "allow_real" | "allow_session" | "allow_always" | "reject" | "reject_always";

export type Change = "created" | "edited" | "deleted" | "renamed";

export type FailureKind = "rate_limit" | "overloaded" | "authentication" | "credit" | "network" | "stalled" | "bad_request" | "context" | "empty" | "configuration" | "storage" | "restarted" | "closed" | "internal";

/** No fields. */
export interface Empty {
}

/** A position in a text document, in the position encoding agreed in `initialize`. */
export interface Position {
  line: number;
  character: number;
}

/** The text from `start` up to, but not including, `end`. */
export interface Range {
  start: Position;
  end: Position;
}

/** A file, or a range in it. */
export interface Location {
  uri: string;
  range?: Range;
}

/** LSP's Diagnostic, as the editor has it. */
export interface Diagnostic {
  range: Range;
  message: string;
  severity?: number;
  code?: number | string;
  source?: string;
}

/** Text of a prompt, or of a message to or from a model. */
export interface TextBlock {
  type: "text";
  text: string;
  /** the MCP server whose prompt the text is, as `server/prompt`; absent for what the user typed */
  source?: string;
}

/** A file, or a selection in it. */
export interface ResourceBlock {
  type: "resource";
  uri: string;
  /** the selection; absent for the whole file */
  range?: Range;
  /** the text; if absent, the server reads it, from the open buffer if there is one */
  text?: string;
}

/** An image, encoded as base64. */
export interface ImageBlock {
  type: "image";
  data: string;
  mimeType: string;
}

/** A problem that another language server reported. */
export interface DiagnosticBlock {
  type: "diagnostic";
  uri: string;
  diagnostic: Diagnostic;
}

/** The document that the user works in. The server reads its text, from the open buffer. */
export interface ActiveDocument {
  uri: string;
  version?: number;
  cursor: Position;
  /** the selection, if it is not empty */
  selection?: Range;
  /** the lines on screen */
  visible?: Range;
  /** the problems of this document */
  diagnostics: Diagnostic[];
}

/** What the user looks at. */
export interface EditorContext {
  /** absent if there is none, or if the user does not want to give it */
  active?: ActiveDocument;
  /** whether the branch and the number of changed files are given */
  git?: boolean;
}

/** What the user looks at. The model is given it with the prompt; the transcript does not show it. If a prompt has no such block, the server asks the client (`editor/context`); a client that cannot answer has as its active document the one of the last edit, code action or hover. */
export interface ContextBlock {
  /** absent if there is none, or if the user does not want to give it */
  active?: ActiveDocument;
  /** whether the branch and the number of changed files are given */
  git: boolean;
  type: "context";
}

export type ContentBlock = TextBlock | ResourceBlock | ImageBlock | DiagnosticBlock | ContextBlock;

/** The argument of the client command `pilotfish.openChat`, which code actions carry for clients with a chat. The client opens its chat with this prompt and its context attached, and sends it if `send` is true. */
export interface ChatDraft {
  prompt: ContentBlock[];
  send: boolean;
  /** whether the prompt is the first one of a new session; a code action has nothing to do with the open chat */
  newSession: boolean;
}

/** Tokens and requests, of a turn or of a session. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  /** of the input tokens: read from the provider's prompt cache */
  cachedTokens: number;
  /** of the output tokens: spent on thinking */
  reasoningTokens: number;
  requests: number;
  toolCalls: number;
  /** in US dollars, if the price is known */
  cost?: number;
  /** requests to models whose price is not known; `cost` does not count them. Models on this machine cost nothing */
  unpricedRequests: number;
}

/** The task of a session that runs in the background, in a worktree and a process of its own. */
export interface Background {
  /** `interrupted`: its process is gone; `background/resume` continues it. `applied`: its changes were taken over */
  state: "queued" | "running" | "interrupted" | "done" | "failed" | "cancelled" | "applied" | "discarded";
  /** where it runs, for the user; empty before it does */
  place: string;
  /** what the user should know: what stayed behind, why it failed */
  note: string;
  /** whether there are changes to take over */
  hasChanges: boolean;
}

/** A conversation, usually about one workspace folder. */
export interface Session {
  id: string;
  title: string;
  /** a URI, or null if the session belongs to no folder */
  workspaceFolder: string | null;
  model: string;
  mode: Mode;
  createdAt: string;
  updatedAt: string;
  turns: number;
  /** whether a turn is running */
  busy: boolean;
  usage: Usage;
  /** true if another process runs the turn. It is followed, answered, steered and stopped here like a turn of this process */
  elsewhere?: boolean;
  /** its task in the background, if it has one */
  background?: Background;
  /** true if the session came from a file, which anybody may have written */
  imported?: boolean;
}

/** The reason why a turn failed, in words for the user. */
export interface Failure {
  message: string;
  remedy: string;
  retryable: boolean;
  kind: FailureKind;
  /** seconds to wait before a retry */
  retryAfter?: number;
}

/** A command that was killed together with its process group. */
export interface KilledProcess {
  pid: number;
  command: string;
}

/** What a cancel stopped, and what had already happened. */
export interface Receipt {
  turnId?: string;
  tookMs: number;
  /** ids of the calls that were stopped */
  cancelledCalls: string[];
  killedProcesses: KilledProcess[];
  /** URIs of the files that the turn had changed before it was stopped */
  changedFiles: string[];
}

/** The output of a call. `text` is what the model receives. */
export interface CallResult {
  text: string;
  truncated: boolean;
  /** size of the whole output */
  bytes: number;
}

/** Who allowed or denied a call, and why. */
export interface CallApproval {
  decision: "allow" | "deny";
  by: "mode" | "rule" | "user" | "nobody";
  reason: string;
  approvalId?: string;
  optionId?: string;
  /** the rule that decided, in words */
  rule?: string;
  digest?: string;
  feedback?: string;
  /** whether the user changed the arguments; then `args` are the changed ones */
  amended: boolean;
}

/** The whole state of a call. `status` starts at `pending`, may pass through `awaiting_approval` and `in_progress`, and ends in one of the last four values, which are final. */
export interface ToolCall {
  id: string;
  name: string;
  title: string;
  category: Category;
  status: CallStatus;
  args: Record<string, unknown>;
  locations: Location[];
  result?: CallResult;
  /** unified diff of the changes that the call made */
  diff?: string;
  error?: string;
  startedAt?: string;
  durationMs?: number;
  approval?: CallApproval;
  /** the arguments as the model wrote them, if they were not a JSON object */
  rawArgs?: string;
  /** whether the model wrote the call as text and it was recognised there */
  recovered: boolean;
  /** the call whose subagent made this one */
  parentId?: string;
}

/** One step of the agent's plan. */
export interface PlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
  priority: "high" | "medium" | "low";
}

/** A turn started with this prompt. */
export interface TurnStarted {
  kind: "turn_started";
  promptId?: string;
  prompt: ContentBlock[];
}

/** The turn entered another state. */
export interface StateChanged {
  kind: "state";
  state: AgentState;
  iteration: number;
  promptId?: string;
  /** with `user_input` while a turn runs: the steered prompt that the model reads next */
  prompt?: ContentBlock[];
}

/** The next piece of the agent's answer. */
export interface MessageChunk {
  kind: "agent_message_chunk";
  itemId: string;
  text: string;
}

/** The next piece of the agent's reasoning. */
export interface ThoughtChunk {
  kind: "agent_thought_chunk";
  itemId: string;
  text: string;
}

/** A call is new or changed. The update always carries the whole call. */
export interface CallUpdate {
  kind: "tool_call";
  call: ToolCall;
}

/** The next piece of a call's arguments, while the model writes them. */
export interface ArgsChunk {
  kind: "tool_call_args_chunk";
  callId: string;
  text: string;
}

/** Live output of a call, or the steps of a subagent. */
export interface Progress {
  kind: "tool_progress";
  callId: string;
  text: string;
}

/** The plan changed. The update always carries the whole plan. */
export interface PlanUpdate {
  kind: "plan";
  entries: PlanEntry[];
}

/** The turn changed a file, through the editor's buffer or on disk. */
export interface FileChanged {
  kind: "file_changed";
  uri: string;
  change: Change;
  added: number;
  removed: number;
  via: "buffer" | "disk";
  callId?: string;
  oldUri?: string;
  /** true if the change is in the worktree of a background task, and the file itself is as it was */
  background?: boolean;
}

/** A file of which pending changes were kept or undone. */
export interface DecidedFile {
  uri: string;
  decision: "keep" | "undo";
}

/** Pending changes were kept or undone. `review/list` has what is still pending. */
export interface ReviewChanged {
  kind: "review_changed";
  files: DecidedFile[];
}

/** The turn's usage so far, and how much of the model's context window is used. */
export interface UsageUpdate {
  kind: "usage";
  usage: Usage;
  contextUsed: number;
  contextWindow?: number;
}

/** A message for the user, with what to do about it. */
export interface Notice {
  kind: "notice";
  level: "info" | "warning" | "error";
  message: string;
  remedy?: string;
  /** seconds until the provider is asked again; `session/retry` asks at once */
  retryAfter?: number;
  /** the kind of failure, if something failed; the same remedies apply as for a failed turn */
  cause?: FailureKind;
}

/** A sentence of the answer about tests, builds or files, checked against the calls. `unsupported`: no call shows it, and the model is told so once. */
export interface ClaimChecked {
  kind: "claim";
  text: string;
  verdict: "supported" | "unsupported";
  /** which call shows it, or what is missing */
  evidence?: string;
}

/** Fields of the session itself changed, such as its title, model or mode. */
export interface SessionInfo {
  kind: "session_info";
  session: Session;
}

/** From now on the model receives a summary in place of the history before this point. Counts are tokens. */
export interface Compaction {
  kind: "compaction";
  before: number;
  after: number;
  summary: string;
}

/** The last update of a turn. */
export interface TurnEnded {
  kind: "turn_ended";
  stopReason: StopReason;
  usage: Usage;
  error?: Failure;
  receipt?: Receipt;
}

export type Update = TurnStarted | StateChanged | MessageChunk | ThoughtChunk | CallUpdate | ArgsChunk | Progress | PlanUpdate | FileChanged | ReviewChanged | UsageUpdate | Notice | ClaimChecked | SessionInfo | Compaction | TurnEnded;

/** One update of a session. `seq` starts at 1 in each session and grows by exactly 1. */
export interface UpdateParams {
  sessionId: string;
  /** empty if the update belongs to no turn */
  turnId: string;
  seq: number;
  update: Update;
}

/** A prompt of the user. */
export interface PromptItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "prompt";
  prompt: ContentBlock[];
  promptId?: string;
  at?: string;
}

/** An answer of the agent: all chunks with this `itemId`, joined. */
export interface MessageItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "message";
  text: string;
}

/** Reasoning of the agent: all chunks with this `itemId`, joined. */
export interface ThoughtItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "thought";
  text: string;
}

/** A tool call. `id` is the id of the call. */
export interface CallItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "tool_call";
  call: ToolCall;
}

/** The plan as it was at the end of its turn. */
export interface PlanItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "plan";
  entries: PlanEntry[];
}

/** A notice that was shown to the user. */
export interface NoticeItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "notice";
  level: "info" | "warning" | "error";
  message: string;
  remedy?: string;
  /** the kind of failure, if something failed */
  cause?: FailureKind;
}

/** A sentence of the answer before it, checked against the calls. */
export interface ClaimItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "claim";
  text: string;
  verdict: "supported" | "unsupported";
  evidence?: string;
}

/** The history before this item was summarised. */
export interface CompactionItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "compaction";
  before: number;
  after: number;
  summary: string;
}

/** A file that the turn changed. */
export interface FileChangeItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "file_change";
  uri: string;
  change: Change;
  added: number;
  removed: number;
  via: "buffer" | "disk";
  callId?: string;
  oldUri?: string;
  /** true if the change is in the worktree of a background task, and the file itself is as it was */
  background?: boolean;
}

/** The end of a turn. */
export interface TurnEndItem {
  /** stable: the same in updates, and after every load and restart */
  id: string;
  turnId: string;
  /** number of the last update that changed the item, or 0 */
  seq: number;
  kind: "turn_end";
  stopReason: StopReason;
  usage: Usage;
  error?: Failure;
  receipt?: Receipt;
  /** whether the turn's file changes were undone */
  undone: boolean;
  at?: string;
}

export type Item = PromptItem | MessageItem | ThoughtItem | CallItem | PlanItem | NoticeItem | ClaimItem | CompactionItem | FileChangeItem | TurnEndItem;

/** One file before and after the call. `before` is null if the file does not exist yet, `after` if the call deletes it. */
export interface PreviewFile {
  uri: string;
  /** the version of the document at which `before` was read */
  version?: string;
  before: string | null;
  after: string | null;
}

/** The files that the call would change. */
export interface DiffPreview {
  kind: "diff";
  files: PreviewFile[];
  /** what else depends on the files, in one line: `parse is used in 12 places in 4 other files` */
  impact?: string;
}

/** What the command did in a throwaway view of the workspace, without network. `allow_once` applies exactly these files and does not run the command again; `allow_real` runs it. */
export interface CommandEffects {
  /** a file that is not text is given by its size and hash */
  files: PreviewFile[];
  /** what it wrote, cut in the middle if it is long */
  output: string;
  exitCode?: number;
  /** what else depends on the files, in one line */
  impact?: string;
  /** for the user: for example, files whose unsaved text the command did not see */
  note?: string;
}

/** The command that the call would run. */
export interface CommandPreview {
  kind: "command";
  command: string;
  cwd: string;
  /** one sentence for each command in the command line, and one if it keeps running in the background */
  parsed: string[];
  /** true if the command keeps running after the call */
  background?: boolean;
  /** seconds after which the command is stopped */
  timeout?: number;
  /** what the command was seen to do, if it was tried out */
  effects?: CommandEffects;
}

/** A preview of any other call, as text. */
export interface TextPreview {
  kind: "text";
  text: string;
}

export type Preview = DiffPreview | CommandPreview | TextPreview;

/** One answer that the user may choose. */
export interface ApprovalOption {
  id: OptionId;
  label: string;
  /** the rule that would be stored, in words */
  rule?: string;
  /** the tool of that rule, as `rule/add` takes it */
  tool?: string;
  /** the pattern of that rule, as `rule/add` takes it, for a client that lets the user edit it first */
  pattern?: string;
  /** examples of calls that the rule would cover */
  matches: string[];
  /** examples of similar calls that the rule would not cover */
  excludes: string[];
}

/** Asks the user whether a call may run. The answer holds for one digest: these exact arguments, and these versions of the documents that they touch. */
export interface ApprovalRequest {
  approvalId: string;
  sessionId: string;
  turnId: string;
  call: ToolCall;
  /** why the user is asked */
  reason: string;
  digest: string;
  preview: Preview;
  options: ApprovalOption[];
  /** whether the answer may change the arguments */
  amendable: boolean;
}

/** The user's answer. A question that was closed without an answer is not answered: leave the request open, or fail it with `-32800` when the client shuts down. */
export interface ApprovalAnswer {
  optionId: OptionId;
  /** sent to the model together with a refusal */
  feedback?: string;
  /** the arguments as the user changed them: they are validated again, and they are what runs, is shown and is recorded */
  args?: Record<string, unknown>;
}

/** A question was answered or withdrawn. Every surface that still shows it removes it. */
export interface ApprovalResolved {
  approvalId: string;
  sessionId: string;
  /** the chosen option, or `cancelled` */
  optionId: string;
  /** the surface on which the answer was given */
  by: string;
}

/** Selects the questions of one session, or of all sessions. */
export interface ApprovalListParams {
  sessionId?: string;
}

/** The questions that still wait for an answer, oldest first. */
export interface ApprovalListResult {
  approvals: ApprovalRequest[];
}

/** Answers a question that the client got from `session/load` or `approval/list`. */
export interface ApprovalAnswerParams {
  approvalId: string;
  optionId: OptionId;
  feedback?: string;
  args?: Record<string, unknown>;
}

/** Tells whether this answer was the first one, and so the one that counts. */
export interface ApprovalAnswerResult {
  accepted: boolean;
}

/** A task for the background. It starts from the folder's current commit; what is not committed stays behind. */
export interface BackgroundStartParams {
  prompt: ContentBlock[];
  /** a URI; if absent, the first workspace folder */
  workspaceFolder?: string;
  model?: string;
  mode?: Mode;
}

/** The new session, in whose list entry the state of the task is. */
export interface BackgroundStartResult {
  session: Session;
  /** what the user should know, such as changes that stayed behind */
  notes: string[];
}

/** Makes a branch of the task's changes. */
export interface BackgroundBranchParams {
  sessionId: string;
  /** if absent, a name made from the title */
  name?: string;
}

/** The new branch. */
export interface BackgroundBranchResult {
  name: string;
}

/** The server's requests that this client answers. */
export interface ClientAbilities {
  approvals?: boolean;
  /** not a request: the client shows `effects` of a command preview. For a client that does not, the preview of a command that was tried out is a text with all of it: the command, the diff and the output */
  approvalEffects?: boolean;
  /** `editor/open` and `editor/save` */
  save?: boolean;
  diagnostics?: boolean;
  codeActions?: boolean;
  /** `editor/symbols`, `definition`, `references` and `rename` */
  symbols?: boolean;
  diff?: boolean;
  /** `user/ask`; assumed if `approvals` is true */
  ask?: boolean;
  context?: boolean;
  /** `editor/terminal`, for `@terminal` */
  terminal?: boolean;
  /** the client command `pilotfish.edit`, which asks for an instruction and sends `edit/inline`; its argument is `{ uri, range }` */
  inlineEdit?: boolean;
  /** not a request: the client lists sessions, so the model writes their titles (setting `titles`) */
  titles?: boolean;
  /** the notification `mcp/changed` */
  mcp?: boolean;
  /** the notification `session/listChanged` */
  sessionList?: boolean;
  /** `model/request`: the client has language models, and reports them with `model/offered` */
  languageModels?: boolean;
}

/** `initialize.initializationOptions.pilotfish`. A client that does not send it is a plain client. */
export interface Hello {
  protocolVersion?: number;
  client?: ClientAbilities;
  /** workspace trust, as the editor knows it */
  trusted?: boolean;
  /** the settings that the user made in the editor */
  settings?: Settings;
}

/** `capabilities.experimental.pilotfish` of the answer to `initialize`. */
export interface HelloResult {
  protocolVersion: number;
  version: string;
  methods: string[];
}

/** The user granted or withdrew trust in the workspace. */
export interface TrustParams {
  trusted: boolean;
}

/** A new conversation. Fields that are left out come from the settings. */
export interface SessionNewParams {
  /** a URI; if absent, the first workspace folder */
  workspaceFolder?: string;
  title?: string;
  model?: string;
  mode?: Mode;
}

/** The session after the request. */
export interface SessionResult {
  session: Session;
}

/** Selects sessions. */
export interface SessionListParams {
  workspaceFolder?: string;
  /** searched in titles and texts */
  query?: string;
  cursor?: string;
  /** one page has at most 500 sessions */
  limit?: number;
}

/** Where a query was found in the messages of a session. */
export interface SessionMatch {
  sessionId: string;
  /** the words around the place */
  text: string;
}

/** One page of sessions, newest first. */
export interface SessionListResult {
  sessions: Session[];
  /** for a query: the sessions in whose messages it was found, not only in the title */
  matches?: SessionMatch[];
  nextCursor?: string;
}

/** Selects the newest items, or the items before one that the client already has. */
export interface SessionLoadParams {
  sessionId: string;
  /** the id of the oldest item that the client has */
  before?: string;
  /** one page has at most 2000 items */
  limit?: number;
}

/** One page of the transcript, oldest item first. The next update has the number `lastSeq + 1`. */
export interface SessionLoadResult {
  session: Session;
  items: Item[];
  hasMore: boolean;
  lastSeq: number;
  pendingApprovals: ApprovalRequest[];
}

/** Gives a session another title. */
export interface SessionRenameParams {
  sessionId: string;
  title: string;
}

/** Names a session. */
export interface SessionParams {
  sessionId: string;
}

/** Copies a session up to and including one item, or the whole session if `itemId` is absent. */
export interface SessionForkParams {
  sessionId: string;
  itemId?: string;
}

/** Exports a transcript as text. */
export interface SessionExportParams {
  sessionId: string;
  format: "markdown" | "json";
}

/** The exported text. */
export interface SessionExportResult {
  text: string;
}

/** Sets the model or the mode, from the next model request on. */
export interface SessionConfigureParams {
  sessionId: string;
  model?: string;
  mode?: Mode;
}

/** A prompt. The request is answered when its turn has ended. */
export interface PromptParams {
  sessionId: string;
  prompt: ContentBlock[];
  /** an id that the client chooses */
  promptId?: string;
  /** what to do while a turn runs: fail with error 2, wait until it ends, or give the prompt to the model at its next step */
  whenBusy?: "reject" | "queue" | "steer";
}

/** The outcome of the turn. If the provider fails, `stopReason` is `failed`; that is not a JSON-RPC error. */
export interface PromptResult {
  turnId: string;
  stopReason: StopReason;
  usage: Usage;
  error?: Failure;
  receipt?: Receipt;
  /** the answer of a slash command (Markdown); no turn ran, and `turnId` is empty */
  reply?: string;
  /** the session to continue in, if it is another one: after `/clear`, and of an inline edit */
  sessionId?: string;
}

/** Stops the turn. With `toolCallId` only that call is stopped, and the turn goes on. */
export interface CancelParams {
  sessionId: string;
  toolCallId?: string;
}

/** Selects the turn whose file changes are undone. Without `turnId` it is the last turn that changed files. */
export interface UndoParams {
  sessionId: string;
  turnId?: string;
  dryRun?: boolean;
}

/** A file that was restored, or with `dryRun` would be. */
export interface UndoneFile {
  uri: string;
  change: Change;
  added: number;
  removed: number;
}

/** A file that was not touched, and why. */
export interface RefusedFile {
  uri: string;
  reason: string;
}

/** The files that were restored, and those that were not. A later edit of the user is never overwritten. */
export interface UndoResult {
  changes: UndoneFile[];
  refused: RefusedFile[];
  /** the turn that was meant */
  turnId?: string;
  /** commands of the turn that ran where they could change files: what they did is not recorded and stays */
  commands?: string[];
}

/** Selects the turn that is undone together with all later ones. */
export interface RestoreParams {
  sessionId: string;
  turnId: string;
}

/** The conversation as it was before the turn, in a new session, and what was done to the files. The old session keeps everything: `session/redo` applies the changes of its turns again. */
export interface RestoreResult {
  session: Session;
  changes: UndoneFile[];
  refused: RefusedFile[];
  /** the turns that are not in the new session, oldest first */
  turns: string[];
  /** commands that ran in these turns; their effects are not undone */
  commands: string[];
}

/** A prompt that waits for the running turn to end, or for its next step. */
export interface QueuedPrompt {
  promptId: string;
  prompt: ContentBlock[];
  kind: "queue" | "steer";
}

/** The waiting prompts, in the order in which they will run. */
export interface QueueListResult {
  prompts: QueuedPrompt[];
}

/** Withdraws a waiting prompt. Its own request is answered with `cancelled`. */
export interface QueueRemoveParams {
  sessionId: string;
  promptId: string;
}

/** Selects the pending changes of a session, or of all open sessions; of all files, or of one. */
export interface ReviewListParams {
  sessionId?: string;
  uri?: string;
}

/** Lines that the agent changed. Undoing the hunk replaces `range`, which has the text `after`, by `before`. */
export interface ReviewHunk {
  /** A hunk whose text or place has changed has another id. */
  id: string;
  /** whole lines of the current text, unsaved text included */
  range: Range;
  before: string;
  after: string;
  turnId: string;
  state: "pending" | "kept" | "undone";
}

/** A file with pending changes. A new or deleted file has one hunk; a file that is not text has none. */
export interface ReviewFile {
  sessionId: string;
  uri: string;
  change: Change;
  added: number;
  removed: number;
  hunks: ReviewHunk[];
  /** where the file was before the agent renamed it */
  oldUri?: string;
  /** the whole text without the pending changes; only if `uri` was given */
  before?: string;
}

/** The files with pending changes. */
export interface ReviewListResult {
  files: ReviewFile[];
}

/** Selects what is kept or undone: hunks of a file, all of a file, or everything in the session. */
export interface ReviewParams {
  sessionId: string;
  uri?: string;
  hunkIds?: string[];
}

/** Selects lines of a document. */
export interface BlameParams {
  uri: string;
  range?: Range;
}

/** Lines that one turn wrote. */
export interface BlamedLines {
  range: Range;
  sessionId: string;
  turnId: string;
  /** the beginning of the turn's prompt */
  promptTitle: string;
}

/** The lines that turns of this folder's newest sessions wrote. Lines of the user are left out. */
export interface BlameResult {
  lines: BlamedLines[];
}

/** A stored approval decision. Deny beats ask, and ask beats allow. */
export interface Rule {
  id: string;
  decision: "allow" | "ask" | "deny";
  tool: string;
  pattern: string;
  /** workspace rules are stored in the user's own configuration, by folder; rules of a repository and of the managed policy can only restrict */
  scope: "session" | "workspace" | "user" | "repository" | "managed";
  /** the rule in words */
  words: string;
  sessionId?: string;
  workspaceFolder?: string;
}

/** Selects the rules that apply in a session, or in general. */
export interface RuleListParams {
  sessionId?: string;
}

/** The rules, strongest first. */
export interface RuleListResult {
  rules: Rule[];
}

/** Adds a rule. The scope `session` needs `sessionId`; the scope `workspace` uses that session's folder, or else the first workspace folder. */
export interface RuleAddParams {
  decision: "allow" | "ask" | "deny";
  tool?: string;
  pattern?: string;
  scope?: "session" | "workspace" | "user";
  sessionId?: string;
}

/** The rule that was stored. */
export interface RuleAddResult {
  rule: Rule;
}

/** Names a rule by its id from `rule/list`. */
export interface RuleRemoveParams {
  id: string;
  sessionId?: string;
}

/** An API key from the editor's secret store. The server keeps it in memory only. An empty key removes it. */
export interface SecretSetParams {
  provider: string;
  key: string;
}

/** US dollars per million tokens, if the price is known. */
export interface Price {
  input: number;
  output: number;
}

/** A model that can be selected. */
export interface Model {
  id: string;
  label: string;
  provider: string;
  available: boolean;
  /** why the model is not available, and what to do */
  reason?: string;
  contextWindow?: number;
  price?: Price;
  /** whether the model accepts images; absent if unknown */
  images?: boolean;
  /** whether the model can call tools; absent if unknown */
  tools?: boolean;
  /** why the model may not do the work of an agent, although it is available */
  warning?: string;
  /** whether the model runs on this machine and costs nothing; a hosted model without `price` has an unknown one */
  local: boolean;
  /** its weights have to be downloaded before it is available, with `model/download` */
  downloadBytes?: number;
  /** the server's environment lacks the package that runs it (`pilotfish[local]`) */
  missingPackage?: boolean;
}

/** Names a model with `downloadBytes`. */
export interface ModelDownloadParams {
  id: string;
  /** where to report progress; without it the server asks the client for a place */
  workDoneToken?: number | string;
}

/** The file of the weights. */
export interface ModelDownloadResult {
  uri: string;
}

/** All known models, and why some are not available. */
export interface ModelListResult {
  models: Model[];
  current: string;
}

/** A slash command. The client sends it as the text of a prompt: `/name arguments`. */
export interface Command {
  name: string;
  description: string;
  argumentHint?: string;
  source: "built-in" | "user" | "workspace" | "mcp";
}

/** Built-in commands first, then the user's own, those of the workspace, and the prompts of MCP servers. */
export interface CommandListResult {
  commands: Command[];
}

/** The text after the `@`. */
export interface MentionParams {
  query: string;
  /** at most 200 */
  limit?: number;
  sessionId?: string;
}

export type MentionKind = "file" | "folder" | "buffer" | "symbol" | "resource" | "context" | "session" | "url";

/** Something that the user can mention. */
export interface Mention {
  /** `resource`: a text of an MCP server; `context`: `@problems`, `@changes`, `@branch` or `@terminal`; `session`: another session; `url`: a web page. The server attaches all of these as text */
  kind: MentionKind;
  /** empty for `context` and `session` */
  uri: string;
  /** the text to show */
  label: string;
  /** the text to insert after the `@`, quoted if the name needs it */
  insert: string;
  detail?: string;
  range?: Range;
}

/** The completions, best match first. */
export interface MentionResult {
  mentions: Mention[];
}

/** The text of a prompt that is being written. */
export interface MentionFindParams {
  text: string;
  sessionId?: string;
}

/** A mention in a text that names something. */
export interface MentionInText {
  kind: MentionKind;
  name: string;
  /** of its `@`, in UTF-16 code units, whatever the position encoding is */
  start: number;
  end: number;
  /** about how many it adds to the prompt; absent if that is known only when the prompt is sent */
  tokens?: number;
  /** why it is not attached */
  problem?: string;
}

/** The mentions, in the order of the text. What names nothing is not listed. */
export interface MentionFindResult {
  mentions: MentionInText[];
}

/** The sample project that was written. */
export interface SampleResult {
  /** URI of the new folder, for the client to open */
  folder: string;
  /** URI of the file to show first */
  file: string;
  /** what to ask there */
  prompt: string;
}

/** An MCP server from the user's configuration. */
export interface McpServer {
  name: string;
  state: "ready" | "connecting" | "failed";
  tools: number;
  error?: string;
}

/** Where sessions are stored, and whether that works. */
export interface StoreStatus {
  location: string;
  /** `unsaved`: the database cannot be written, and sessions are kept in memory or on this machine only */
  state: "ok" | "unsaved";
}

/** Inline completions, which belong to no conversation. */
export interface CompletionStatus {
  /** empty if completion is switched off */
  model: string;
  /** since the server was started; cancelled requests count */
  usage: Usage;
}

/** The state of the server. It is answered at once, also while the engine loads; what is not known yet is null. */
export interface Status {
  version: string;
  state: "loading" | "ready" | "failed";
  uptimeMs: number;
  memoryBytes: number;
  /** why the engine failed to load */
  error?: Failure;
  model: string | null;
  mode: Mode | null;
  trusted: boolean;
  store: StoreStatus | null;
  mcpServers: McpServer[];
  /** the sandbox that commands run in, or `none` and why */
  sandbox: string | null;
  /** null if no completion was asked for and none can be */
  completions?: CompletionStatus;
  runningTurns: number;
  pendingApprovals: number;
  /** settings that were ignored, and why */
  problems: string[];
  /** what the policy of the user's organisation restricts, in words */
  managed: string[];
}

/** A server of models at an address of its own. Its models are called `name:model`. */
export interface EndpointEntry {
  name: string;
  url: string;
  /** OpenAI Chat Completions or Responses, Anthropic Messages, or Google */
  api: "chat" | "responses" | "anthropic" | "google";
  /** the environment variable that holds its key; a key of `secret/set` under its name comes first */
  keyVariable?: string;
}

/** An endpoint that is used. */
export interface ListedEndpoint {
  name: string;
  url: string;
  /** OpenAI Chat Completions or Responses, Anthropic Messages, or Google */
  api: "chat" | "responses" | "anthropic" | "google";
  /** the environment variable that holds its key; a key of `secret/set` under its name comes first */
  keyVariable?: string;
  hasKey: boolean;
  /** whether it is in the user's `config.toml`; one of the editor's settings cannot be removed here */
  stored: boolean;
}

/** The endpoints of all settings. */
export interface EndpointListResult {
  endpoints: ListedEndpoint[];
}

/** The endpoint to store in the user's `config.toml`. It replaces one of the same name. */
export interface EndpointAddParams {
  endpoint: EndpointEntry;
}

/** Names a stored endpoint. */
export interface EndpointRemoveParams {
  name: string;
}

/** What to try: an endpoint, which need not be stored, or a model of any provider. One of the two is needed. */
export interface EndpointTestParams {
  endpoint?: EndpointEntry;
  /** the key that the user has just entered; without it the stored one is used */
  key?: string;
  /** with `endpoint` the name of one of its models, else a model's id; it is sent one small request */
  model?: string;
}

/** Whether the provider answered. If not, `error` has its words. */
export interface EndpointTestResult {
  ok: boolean;
  /** what the endpoint lists; it may list none and still work */
  models: Model[];
  error?: Failure;
}

/** An MCP server as the user configures it: a program (`command`) or an address (`url`). A value may contain `${env:NAME}` for an environment variable, and `${input:ID}` for a secret that the client sets with `secret/set` under the name `input:ID`, so that no secret is written to the file. */
export interface McpServerEntry {
  name: string;
  command?: string;
  args: string[];
  env: Record<string, unknown>;
  url?: string;
  transport: "http" | "sse";
  headers: Record<string, unknown>;
  /** believe what the server says about its tools: those that only read run without a question */
  trusted: boolean;
}

/** An MCP server of the configuration file, and its state. */
export interface ListedMcpServer {
  name: string;
  /** `stopped`: it starts in a trusted folder */
  state: "ready" | "connecting" | "failed" | "disabled" | "stopped";
  /** its command line or address, as it is written in the file */
  place: string;
  tools: number;
  error?: string;
  /** the ids of the secrets that it needs */
  inputs: string[];
}

/** The servers of the configuration file. */
export interface McpListResult {
  servers: ListedMcpServer[];
  /** URI of the file, which may not exist yet */
  file: string;
  /** why the file cannot be read */
  problem?: string;
}

/** The server to add to the configuration file. It replaces one of the same name. */
export interface McpAddParams {
  server: McpServerEntry;
}

/** Names a server of the configuration file. */
export interface McpNameParams {
  name: string;
}

/** Switches a server on or off, in the configuration file. */
export interface McpEnableParams {
  name: string;
  enabled: boolean;
}

/** The server to connect to: one of the file by `name`, or one that need not be stored. */
export interface McpTestParams {
  name?: string;
  server?: McpServerEntry;
  /** values of `${input:ID}` that the user has just entered, by id */
  inputs?: Record<string, unknown>;
}

/** A tool that an MCP server offers. */
export interface McpTool {
  name: string;
  description?: string;
}

/** The tools of the server, or why it cannot be used. */
export interface McpTestResult {
  ok: boolean;
  tools: McpTool[];
  error?: string;
}

/** MCP servers were connected, lost or reconfigured. The payload has all of them. */
export interface McpChanged {
  servers: McpServer[];
}

/** A question that the agent asks the user. */
export interface AskParams {
  sessionId: string;
  turnId: string;
  question: string;
  options: string[];
}

/** The user's answer, or `dismissed` if the user gave none. */
export interface AskResult {
  answer?: string;
  dismissed?: boolean;
}

/** Names documents. */
export interface UrisParams {
  uris: string[];
}

/** A document for which the request failed, and why. */
export interface FailedDocument {
  uri: string;
  reason: string;
}

/** A document that the editor now holds open. */
export interface OpenedDocument {
  uri: string;
  version: number;
  dirty: boolean;
}

/** The documents that are open now. Their `didOpen` notifications come before this answer. */
export interface OpenResult {
  opened: OpenedDocument[];
  failed?: FailedDocument[];
}

/** The documents that were saved: their text and the file on disk are equal. */
export interface SaveResult {
  saved: string[];
  failed?: FailedDocument[];
}

/** Selects all documents or one, if wanted not before its language servers have seen a version. */
export interface DiagnosticsParams {
  uri?: string;
  waitForVersion?: number;
  timeoutMs?: number;
}

/** The diagnostics of one document. */
export interface DocumentDiagnostics {
  uri: string;
  version?: number;
  diagnostics: Diagnostic[];
}

/** All documents that have diagnostics. */
export interface DiagnosticsResult {
  documents: DocumentDiagnostics[];
}

/** Asks other language servers for code actions in a range. */
export interface CodeActionsParams {
  uri: string;
  range: Range;
  /** code action kinds */
  only?: string[];
}

/** LSP's CodeAction objects, resolved. */
export interface CodeActionsResult {
  actions: Record<string, unknown>[];
}

/** A position in a document. */
export interface PlaceParams {
  uri: string;
  position: Position;
}

/** Asks for the references to the symbol at a position. */
export interface ReferencesParams {
  uri: string;
  position: Position;
  includeDeclaration: boolean;
}

/** LSP's Location objects. */
export interface LocationsResult {
  locations: Location[];
}

/** What the user's terminal shows: the output of its last command, or what is selected in it. */
export interface TerminalResult {
  text: string;
  /** the command line, if the editor knows it */
  command?: string;
}

/** Asks for the symbols of a document, or for symbols of the workspace by name. */
export interface SymbolsParams {
  uri?: string;
  query?: string;
}

/** LSP's DocumentSymbol or WorkspaceSymbol objects. */
export interface SymbolsResult {
  symbols: Record<string, unknown>[];
}

/** Asks which edits would rename the symbol at a position. */
export interface RenameParams {
  uri: string;
  position: Position;
  newName: string;
}

/** LSP's WorkspaceEdit, not applied yet. */
export interface RenameResult {
  edit?: Record<string, unknown>;
}

/** Asks the client to show a diff without taking the focus. */
export interface DiffParams {
  title: string;
  uri: string;
  before: string;
  after: string;
}

/** An instruction for a place in a file. The request is answered when the turn has ended. */
export interface InlineEditParams {
  uri: string;
  /** the lines to edit; empty for a place to write at */
  range: Range;
  prompt: string;
  promptId?: string;
  /** the session of an earlier inline edit, which this one refines; absent for a new edit */
  sessionId?: string;
}

/** Undoes the pending changes of an inline edit and runs its last instruction again. */
export interface InlineRetryParams {
  sessionId: string;
  promptId?: string;
}

/** The outcome of the turn, which ran in the session `sessionId`. */
export interface InlineEditResult {
  turnId: string;
  stopReason: StopReason;
  usage: Usage;
  error?: Failure;
  receipt?: Receipt;
  /** the answer of a slash command (Markdown); no turn ran, and `turnId` is empty */
  reply?: string;
  /** the session to continue in, if it is another one: after `/clear`, and of an inline edit */
  sessionId?: string;
  /** the pending changes of the session in this file (`review/list`); none if the model has not edited it */
  hunkIds: string[];
}

/** A code block of an answer, for which a place is wanted. */
export interface LocateParams {
  code: string;
  /** the words behind the fence: the language, and sometimes a path */
  info?: string;
  /** the document that the user works in */
  uri?: string;
}

/** Where a code block belongs. Without `how` it is not certain, and the user chooses. */
export interface LocateResult {
  /** the block without a first line that names its path */
  code: string;
  /** `same`: it is there already; `new`: the file does not exist yet; otherwise what was recognised */
  how?: "same" | "whole" | "symbol" | "lines" | "new";
  uri?: string;
  /** the text of the file now, with `\n` at line ends; absent if it does not exist */
  before?: string;
  /** the text of the file with the block in its place */
  after?: string;
}

/** A language model of the client. */
export interface OfferedModel {
  /** unique in the client; the model is called `vscode:` and this id */
  id: string;
  label: string;
  /** tokens, if known */
  contextWindow?: number;
  /** whether it accepts images; absent if unknown */
  images?: boolean;
  /** whether it can call tools; absent if unknown */
  tools?: boolean;
}

/** All language models of the client. Sent after `initialized` and whenever they change. */
export interface ModelsOfferedParams {
  models: OfferedModel[];
}

/** A tool call of the model. */
export interface ModelToolCall {
  type: "tool_call";
  id: string;
  name: string;
  input: Record<string, unknown>;
}

/** The result of a tool call, for the model. */
export interface ModelToolResult {
  type: "tool_result";
  /** of the call */
  id: string;
  text: string;
}

export type ModelPart = TextBlock | ImageBlock | ModelToolCall | ModelToolResult;

/** One message of the conversation. Results of tools are in a message of the user. */
export interface ModelMessage {
  role: "system" | "user" | "assistant";
  parts: ModelPart[];
}

/** A tool that the model may call. The server runs it. */
export interface ModelTool {
  name: string;
  description: string;
  inputSchema: Record<string, unknown>;
}

/** A request to a language model of the client. */
export interface ModelRequestParams {
  requestId: string;
  /** the id of the model in the client, without `vscode:` */
  model: string;
  messages: ModelMessage[];
  tools: ModelTool[];
  /** options that the user set, such as `temperature`, in the names of OpenAI's Chat API */
  options: Record<string, unknown>;
}

export type ModelChunkPart = TextBlock | ModelToolCall;

/** A part of the answer to a `model/request`, in order. A tool call is whole. */
export interface ModelChunkParams {
  requestId: string;
  part: ModelChunkPart;
}

/** The tokens of one request, as the provider counted them. */
export interface ModelUsage {
  inputTokens: number;
  outputTokens: number;
}

/** Why a request failed. */
export interface ModelFailure {
  /** `permission`: the user has not allowed the client to use the model */
  kind: "permission" | "quota" | "rate_limit" | "blocked" | "not_found" | "other";
  /** the provider's own words */
  message: string;
}

/** The end of an answer, after its last chunk. */
export interface ModelRequestResult {
  finish?: "stop" | "length" | "content_filter";
  /** if known; otherwise the server estimates it */
  usage?: ModelUsage;
  error?: ModelFailure;
}

/** Hard limits of one turn; absent means none. */
export interface Budget {
  /** input and output together */
  tokens?: number;
  /** in US dollars, for models whose price is known */
  cost?: number;
}

/** A server of models at an address of its own. Its models are called `name:model`. */
export interface Endpoint {
  /** starts the names of its models; not the name of a provider */
  name: string;
  /** the address of its API, such as `https://gateway.example/v1` */
  url: string;
  /** what it speaks: OpenAI Chat Completions or Responses, Anthropic Messages, or Google */
  api?: "chat" | "responses" | "anthropic" | "google";
  /** the environment variable that holds its key; the key may also be set in the editor, under `name` */
  keyVariable?: string;
}

/** A standing rule as a user writes it. */
export interface RuleSetting {
  /** deny beats ask beats allow */
  decision: "allow" | "ask" | "deny";
  /** a tool's name, or `*` for all */
  tool?: string;
  /** a command (`npm test`, `git log *`) or a path (`src/**`), as the tool has one */
  pattern?: string;
}

/** Every setting, camelCase on the wire and in `config.toml`, snake_case here. */
export interface Settings {
  /** `provider:name`, just a name when `baseUrl` is the address of an OpenAI-compatible server, or `demo` */
  model?: string;
  /** the address of the provider that `model` names */
  baseUrl?: string;
  /** servers of models beside the known providers, each at its own address */
  endpoints?: Endpoint[];
  /** used when the first one is overloaded or out of reach */
  fallbackModel?: string;
  /** a fast model for inline completion in the editor, such as `ollama:qwen2.5-coder:1.5b`; empty: no completion */
  completionModel?: string;
  /** what runs without a question: reading (`ask`), reading and nothing else at all (`plan`), edits too (`edit`), and commands too (`auto`) */
  mode?: Mode;
  /** requests to the model in one turn; absent: no fixed number, `budget` and the check for repeated calls end it */
  maxIterations?: number;
  /** calls that are sent again with arguments and output, older ones as one line; absent: all, while the context window has room */
  toolHistoryRounds?: number;
  /** the newest output that is never left out, in tokens; less in a small context window */
  protectTokens?: number;
  /** less than this is not worth losing the provider's prompt cache for; less in a small context window */
  minimumSavedTokens?: number;
  /** calls that run at the same time; absent: as many as there are CPUs */
  maxParallelTools?: number;
  /** seconds a call may take */
  toolTimeout?: number;
  /** how often a call that only reads is tried again after an error that may pass */
  toolRetries?: number;
  /** bytes of one call's output that the model is given */
  maxToolOutput?: number;
  /** seconds without a word from the provider, after which the request has failed */
  stallTimeout?: number;
  /** standing answers to approvals */
  rules?: RuleSetting[];
  /** hard limits of one turn; `{}` for none */
  budget?: Budget;
  /** let the model write the title of a session after its first turn, in clients that list sessions */
  titles?: boolean;
  /** check what an answer says about tests, builds and files against the calls, and tell the model once */
  verifyClaims?: boolean;
  /** before a question about a command that changes files, run it in a throwaway copy-on-write view of the workspace, without network, so that the question shows what it changes */
  tryCommands?: boolean;
  /** a command that runs once at the end of a turn that changed files, such as `make test`; if it fails, the model is told */
  checkCommand?: string;
  /** files of a trusted workspace whose rules the agent follows; AGENTS.md and CLAUDE.md apply in every folder */
  instructionFiles?: string[];
  /** whether language servers of the machine are started in a trusted folder, in the read-only sandbox, where the editor cannot answer for its own: basedpyright or pyright, ruff, gopls, rust-analyzer, typescript-language-server, clangd */
  languageServers?: "auto" | "off";
  /** whether commits in a trusted folder say which turns wrote their lines: by `trailer` lines in the message, which a `prepare-commit-msg` hook adds that is installed for this and removed with it, or by git `notes` in `refs/notes/pilotfish` */
  gitAttribution?: "off" | "trailer" | "notes";
  /** path of a file with MCP servers */
  mcpConfig?: string;
  /** directory, or database URL, in which sessions are kept */
  storage?: string;
  /** in tokens, for models that do not report theirs */
  contextWindow?: number;
  /** how much the model thinks first, where it can; absent: its own default */
  thinking?: "off" | "low" | "medium" | "high";
  /** absent: the model's own default */
  temperature?: number;
  /** whether commands are confined where the system can do so */
  sandbox?: "auto" | "off";
  /** whether `web_fetch` and `web_search` may use the network, and confined commands when they are allowed to */
  network?: boolean;
  /** hosts that confined commands may reach without a question: `pypi.org`, `*.npmjs.org`, `example.org:8080`; `*` for the whole network */
  allowedHosts?: string[];
  /** traces and metrics by OpenTelemetry, to where its own environment variables say */
  telemetry?: boolean;
}

/** Requests that the client sends. */
export interface ClientRequests {
  /** Starts a conversation. */
  "pilotfish/session/new": { params: SessionNewParams; result: SessionResult };
  /** Lists and searches conversations. */
  "pilotfish/session/list": { params: SessionListParams; result: SessionListResult };
  /** Reads a transcript. */
  "pilotfish/session/load": { params: SessionLoadParams; result: SessionLoadResult };
  /** Gives a conversation another title. */
  "pilotfish/session/rename": { params: SessionRenameParams; result: SessionResult };
  /** Deletes a conversation permanently. */
  "pilotfish/session/delete": { params: SessionParams; result: Empty };
  /** Copies a conversation, up to an item. */
  "pilotfish/session/fork": { params: SessionForkParams; result: SessionResult };
  /** Exports the transcript as text. */
  "pilotfish/session/export": { params: SessionExportParams; result: SessionExportResult };
  /** Sets the model or the mode of a conversation. */
  "pilotfish/session/configure": { params: SessionConfigureParams; result: SessionResult };
  /** Runs a turn. Answered when the turn has ended. */
  "pilotfish/session/prompt": { params: PromptParams; result: PromptResult };
  /** Stops a turn, or one call. */
  "pilotfish/session/cancel": { params: CancelParams; result: Receipt };
  /** Skips the wait before an automatic retry: asks the provider now. */
  "pilotfish/session/retry": { params: SessionParams; result: Empty };
  /** Restores the files that a turn changed. */
  "pilotfish/session/undo": { params: UndoParams; result: UndoResult };
  /** Applies the changes of an undone turn again. */
  "pilotfish/session/redo": { params: UndoParams; result: UndoResult };
  /** Goes back to the point before a turn, with files and conversation. */
  "pilotfish/session/restore": { params: RestoreParams; result: RestoreResult };
  /** Runs a task in the background, in a worktree of the current commit. */
  "pilotfish/background/start": { params: BackgroundStartParams; result: BackgroundStartResult };
  /** Continues a task in the background whose process is gone, or that failed or was stopped. */
  "pilotfish/background/resume": { params: SessionParams; result: SessionResult };
  /** Makes the changes of a task in the user's files, as a turn that is reviewed and undone like any other. */
  "pilotfish/background/takeOver": { params: SessionParams; result: UndoResult };
  /** Makes a branch of the changes of a task. */
  "pilotfish/background/branch": { params: BackgroundBranchParams; result: BackgroundBranchResult };
  /** Drops the worktree and the changes of a task. */
  "pilotfish/background/discard": { params: SessionParams; result: Empty };
  /** Lists the agent's changes that the user has neither kept nor undone. */
  "pilotfish/review/list": { params: ReviewListParams; result: ReviewListResult };
  /** Keeps pending changes: they are not listed any more. */
  "pilotfish/review/keep": { params: ReviewParams; result: UndoResult };
  /** Undoes pending changes and keeps the user's own text. */
  "pilotfish/review/undo": { params: ReviewParams; result: UndoResult };
  /** Says which turn wrote which lines of a document. */
  "pilotfish/review/blame": { params: BlameParams; result: BlameResult };
  /** Edits a place in a file, as a turn in a session of its own. The changes are pending. */
  "pilotfish/edit/inline": { params: InlineEditParams; result: InlineEditResult };
  /** Undoes an inline edit and runs it again. */
  "pilotfish/edit/retry": { params: InlineRetryParams; result: InlineEditResult };
  /** Finds the place of a code block. Nothing is changed. */
  "pilotfish/edit/locate": { params: LocateParams; result: LocateResult };
  /** Lists the waiting prompts. */
  "pilotfish/queue/list": { params: SessionParams; result: QueueListResult };
  /** Withdraws a waiting prompt. */
  "pilotfish/queue/remove": { params: QueueRemoveParams; result: Empty };
  /** Lists the questions that wait for an answer. */
  "pilotfish/approval/list": { params: ApprovalListParams; result: ApprovalListResult };
  /** Answers a waiting question. */
  "pilotfish/approval/answer": { params: ApprovalAnswerParams; result: ApprovalAnswerResult };
  /** Lists the stored approval rules, with their scope. */
  "pilotfish/rule/list": { params: RuleListParams; result: RuleListResult };
  /** Adds an approval rule. */
  "pilotfish/rule/add": { params: RuleAddParams; result: RuleAddResult };
  /** Removes an approval rule. */
  "pilotfish/rule/remove": { params: RuleRemoveParams; result: Empty };
  /** Sets a provider's API key. */
  "pilotfish/secret/set": { params: SecretSetParams; result: Empty };
  /** Lists models, and which of them are available. */
  "pilotfish/model/list": { params: Empty; result: ModelListResult };
  /** Downloads the weights of a model that runs on this machine. Continues an earlier download. */
  "pilotfish/model/download": { params: ModelDownloadParams; result: ModelDownloadResult };
  /** Lists the named endpoints of models. */
  "pilotfish/endpoint/list": { params: Empty; result: EndpointListResult };
  /** Stores an endpoint in the user's `config.toml`. */
  "pilotfish/endpoint/add": { params: EndpointAddParams; result: Empty };
  /** Removes an endpoint from `config.toml`. */
  "pilotfish/endpoint/remove": { params: EndpointRemoveParams; result: Empty };
  /** Tries an endpoint or a model, which may be new, and lists the endpoint's models. */
  "pilotfish/endpoint/test": { params: EndpointTestParams; result: EndpointTestResult };
  /** Lists the MCP servers of the configuration file. */
  "pilotfish/mcp/list": { params: Empty; result: McpListResult };
  /** Adds an MCP server to the configuration file, and connects. */
  "pilotfish/mcp/add": { params: McpAddParams; result: Empty };
  /** Removes an MCP server from the configuration file. */
  "pilotfish/mcp/remove": { params: McpNameParams; result: Empty };
  /** Switches an MCP server on or off. */
  "pilotfish/mcp/enable": { params: McpEnableParams; result: Empty };
  /** Connects to an MCP server again. */
  "pilotfish/mcp/restart": { params: McpNameParams; result: Empty };
  /** Connects to an MCP server and lists its tools. */
  "pilotfish/mcp/test": { params: McpTestParams; result: McpTestResult };
  /** Lists the slash commands. */
  "pilotfish/command/list": { params: Empty; result: CommandListResult };
  /** Completes a mention after `@`. */
  "pilotfish/mention/complete": { params: MentionParams; result: MentionResult };
  /** Finds the mentions in a draft, with what each adds to the prompt. */
  "pilotfish/mention/find": { params: MentionFindParams; result: MentionFindResult };
  /** Writes a sample project into a new folder. */
  "pilotfish/sample/create": { params: Empty; result: SampleResult };
  /** Returns the state of the server. */
  "pilotfish/status": { params: Empty; result: Status };
}

/** Notifications that the client sends. */
export interface ClientNotifications {
  /** Reports the language models that the client serves. */
  "pilotfish/model/offered": ModelsOfferedParams;
  /** Sends a part of the answer to a `model/request`. */
  "pilotfish/model/chunk": ModelChunkParams;
  /** Reports that the user's trust in the workspace changed. */
  "pilotfish/trust/changed": TrustParams;
}

/** Requests that the server sends. */
export interface ServerRequests {
  /** Asks the user whether a call may run. */
  "pilotfish/approval/request": { params: ApprovalRequest; result: ApprovalAnswer };
  /** Asks the user a question of the agent. */
  "pilotfish/user/ask": { params: AskParams; result: AskResult };
  /** Asks the editor to hold documents open, without a tab or focus. */
  "pilotfish/editor/open": { params: UrisParams; result: OpenResult };
  /** Asks what the user looks at, for a prompt without it. */
  "pilotfish/editor/context": { params: Empty; result: EditorContext };
  /** Asks the editor to save documents. */
  "pilotfish/editor/save": { params: UrisParams; result: SaveResult };
  /** Asks for diagnostics. */
  "pilotfish/editor/diagnostics": { params: DiagnosticsParams; result: DiagnosticsResult };
  /** Asks for the code actions of other language servers. */
  "pilotfish/editor/codeActions": { params: CodeActionsParams; result: CodeActionsResult };
  /** Asks where a symbol is defined. */
  "pilotfish/editor/definition": { params: PlaceParams; result: LocationsResult };
  /** Asks for the references to a symbol. */
  "pilotfish/editor/references": { params: ReferencesParams; result: LocationsResult };
  /** Asks for symbols. */
  "pilotfish/editor/symbols": { params: SymbolsParams; result: SymbolsResult };
  /** Asks what the user's terminal shows, for `@terminal`. */
  "pilotfish/editor/terminal": { params: Empty; result: TerminalResult };
  /** Asks which edits a rename would make. */
  "pilotfish/editor/rename": { params: RenameParams; result: RenameResult };
  /** Asks a language model that the client serves. The answer comes in `model/chunk` notifications. */
  "pilotfish/model/request": { params: ModelRequestParams; result: ModelRequestResult };
  /** Asks the client to show a diff. */
  "pilotfish/editor/diff": { params: DiffParams; result: Empty };
}

/** Notifications that the server sends. */
export interface ServerNotifications {
  /** Reports one update of a session. */
  "pilotfish/session/update": UpdateParams;
  /** Reports that another process has created, renamed, deleted, begun or ended something that lists show. */
  "pilotfish/session/listChanged": Empty;
  /** Reports that a question was answered or withdrawn. */
  "pilotfish/approval/resolved": ApprovalResolved;
  /** Reports that the state of an MCP server changed. */
  "pilotfish/mcp/changed": McpChanged;
}

/** Every error code the server answers with. */
export const ErrorCode = {
  parse_error: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
  internal: -32603,
  not_initialized: -32002,
  cancelled: -32800,
  unknown_session: 1,
  session_busy: 2,
  not_trusted: 3,
  unknown_call: 4,
  storage: 5,
} as const;
