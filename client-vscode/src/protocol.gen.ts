// Generated from server/pilotfish/protocol/wire.py by `make generate`. Do not edit.
// Absent means none: the server sends null only where the type says so.

export const PROTOCOL_VERSION = 1;

export type Mode = "ask" | "plan" | "edit" | "auto";

export type StopReason = "end_turn" | "max_iterations" | "max_tokens" | "budget" | "refusal" | "cancelled" | "failed";

export type AgentState = "user_input" | "assistant" | "tool_execution" | "response";

export type Category = "read_only" | "research" | "write" | "execute";

export type CallStatus = "pending" | "awaiting_approval" | "in_progress" | "completed" | "failed" | "denied" | "cancelled";

export type OptionId = "allow_once" | "allow_session" | "allow_always" | "reject" | "reject_always";

export type Change = "created" | "edited" | "deleted" | "renamed";

export type FailureKind = "rate_limit" | "overloaded" | "authentication" | "credit" | "network" | "stalled" | "bad_request" | "context" | "empty" | "configuration" | "storage" | "restarted" | "internal";

/** Nothing to say. */
export interface Empty {
}

/** A place in a text document, in the position encoding agreed in `initialize`. */
export interface Position {
  line: number;
  character: number;
}

/** From `start` up to, not including, `end`. */
export interface Range {
  start: Position;
  end: Position;
}

/** A place in a file. */
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

/** Words. */
export interface TextBlock {
  type: "text";
  text: string;
}

/** A file, or a selection of it. */
export interface ResourceBlock {
  type: "resource";
  uri: string;
  /** the selection; absent: the whole file */
  range?: Range;
  /** its text; absent: the server reads it, the open buffer first */
  text?: string;
}

/** An image, base64. */
export interface ImageBlock {
  type: "image";
  data: string;
  mimeType: string;
}

/** A problem some other language server reported. */
export interface DiagnosticBlock {
  type: "diagnostic";
  uri: string;
  diagnostic: Diagnostic;
}

export type ContentBlock = TextBlock | ResourceBlock | ImageBlock | DiagnosticBlock;

/** Tokens and requests, of a turn or of a session. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  requests: number;
  toolCalls: number;
  /** in US dollars, where the price is known */
  cost?: number;
}

/** A conversation in a folder. */
export interface Session {
  id: string;
  title: string;
  /** a URI; null: in no folder */
  workspaceFolder: string | null;
  model: string;
  mode: Mode;
  createdAt: string;
  updatedAt: string;
  turns: number;
  /** a turn is running */
  busy: boolean;
  usage: Usage;
  /** true: its turn runs in another window, which alone is told of it */
  elsewhere?: boolean;
}

/** Why a turn failed, in words for the user. */
export interface Failure {
  message: string;
  remedy: string;
  retryable: boolean;
  kind: FailureKind;
  /** seconds */
  retryAfter?: number;
}

/** A command that was ended with its whole process group. */
export interface KilledProcess {
  pid: number;
  command: string;
}

/** What a cancel stopped, and what had already happened. */
export interface Receipt {
  turnId?: string;
  tookMs: number;
  /** ids of calls */
  cancelledCalls: string[];
  killedProcesses: KilledProcess[];
  /** URIs of files the turn had changed before it was stopped */
  changedFiles: string[];
}

/** What a call gave back. `text` is what the model sees. */
export interface CallResult {
  text: string;
  truncated: boolean;
  /** size of the whole output */
  bytes: number;
}

/** How a call came to be allowed or denied. */
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
  /** the user changed the arguments; `args` are the changed ones */
  amended: boolean;
}

/** A call as it is now. `status` goes from `pending` over `awaiting_approval` and `in_progress` to one of the last four, which are final. */
export interface ToolCall {
  id: string;
  name: string;
  title: string;
  category: Category;
  status: CallStatus;
  args: Record<string, unknown>;
  locations: Location[];
  result?: CallResult;
  /** unified diff of what the call changed */
  diff?: string;
  error?: string;
  startedAt?: string;
  durationMs?: number;
  approval?: CallApproval;
  /** the arguments as the model wrote them, when they were not a JSON object */
  rawArgs?: string;
  /** the model wrote the call as text */
  recovered: boolean;
}

/** A step of the agent's plan. */
export interface PlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
  priority: "high" | "medium" | "low";
}

/** A prompt was taken up. */
export interface TurnStarted {
  kind: "turn_started";
  promptId?: string;
  prompt: ContentBlock[];
}

/** Where the turn is. */
export interface StateChanged {
  kind: "state";
  state: AgentState;
  iteration: number;
  promptId?: string;
  /** with `user_input` while a turn runs: words that were steered into it, and that the model reads next */
  prompt?: ContentBlock[];
}

/** More of the answer. */
export interface MessageChunk {
  kind: "agent_message_chunk";
  itemId: string;
  text: string;
}

/** More of a thought. */
export interface ThoughtChunk {
  kind: "agent_thought_chunk";
  itemId: string;
  text: string;
}

/** An upsert: always the whole call as it is now. */
export interface CallUpdate {
  kind: "tool_call";
  call: ToolCall;
}

/** Arguments as the model writes them. */
export interface ArgsChunk {
  kind: "tool_call_args_chunk";
  callId: string;
  text: string;
}

/** Live output of a call, or a subagent's steps. */
export interface Progress {
  kind: "tool_progress";
  callId: string;
  text: string;
}

/** The whole plan as it is now. */
export interface PlanUpdate {
  kind: "plan";
  entries: PlanEntry[];
}

/** A file was changed by the turn, through the editor's buffer or on disk. */
export interface FileChanged {
  kind: "file_changed";
  uri: string;
  change: Change;
  added: number;
  removed: number;
  via: "buffer" | "disk";
  callId?: string;
  oldUri?: string;
}

/** Usage of the turn so far, and how full the model's context is. */
export interface UsageUpdate {
  kind: "usage";
  usage: Usage;
  contextUsed: number;
  contextWindow?: number;
}

/** Something the user should know, and what to do about it. */
export interface Notice {
  kind: "notice";
  level: "info" | "warning" | "error";
  message: string;
  remedy?: string;
  /** seconds until the provider is asked again; `session/retry` asks at once */
  retryAfter?: number;
  /** what went wrong, if something did: what helps a turn that fails of it helps here */
  cause?: FailureKind;
}

/** The session's own fields changed (title, model, mode …). */
export interface SessionInfo {
  kind: "session_info";
  session: Session;
}

/** The history before this point is sent to the model as a summary from now on. Counts are tokens. */
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

export type Update = TurnStarted | StateChanged | MessageChunk | ThoughtChunk | CallUpdate | ArgsChunk | Progress | PlanUpdate | FileChanged | UsageUpdate | Notice | SessionInfo | Compaction | TurnEnded;

/** What the user sent. */
export interface PromptItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "prompt";
  prompt: ContentBlock[];
  promptId?: string;
  at?: string;
}

/** What the agent said: the chunks with this `itemId`, joined. */
export interface MessageItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "message";
  text: string;
}

/** What the agent thought: the chunks with this `itemId`, joined. */
export interface ThoughtItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "thought";
  text: string;
}

/** A call; `id` is the call's id. */
export interface CallItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "tool_call";
  call: ToolCall;
}

/** A plan as it was at the end of its turn. */
export interface PlanItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "plan";
  entries: PlanEntry[];
}

/** Something the user was told. */
export interface NoticeItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "notice";
  level: "info" | "warning" | "error";
  message: string;
  remedy?: string;
  /** what went wrong, if something did */
  cause?: FailureKind;
}

/** History before this was summarised. */
export interface CompactionItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "compaction";
  before: number;
  after: number;
  summary: string;
}

/** A file the turn changed. */
export interface FileChangeItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "file_change";
  uri: string;
  change: Change;
  added: number;
  removed: number;
  via: "buffer" | "disk";
  callId?: string;
  oldUri?: string;
}

/** The end of a turn. */
export interface TurnEndItem {
  /** stable: the same in updates, over loads and restarts */
  id: string;
  turnId: string;
  /** the last update that changed the item; 0 where none did */
  seq: number;
  kind: "turn_end";
  stopReason: StopReason;
  usage: Usage;
  error?: Failure;
  receipt?: Receipt;
  /** the turn's files were put back */
  undone: boolean;
  at?: string;
}

export type Item = PromptItem | MessageItem | ThoughtItem | CallItem | PlanItem | NoticeItem | CompactionItem | FileChangeItem | TurnEndItem;

/** A file before and after. `before` is null when it does not exist yet, `after` when it would be deleted. */
export interface PreviewFile {
  uri: string;
  /** what `before` was read at */
  version?: string;
  before: string | null;
  after: string | null;
}

/** What files would become. */
export interface DiffPreview {
  kind: "diff";
  files: PreviewFile[];
}

/** What would be run. */
export interface CommandPreview {
  kind: "command";
  command: string;
  cwd: string;
  /** the same in words, one for each command in it */
  parsed: string[];
}

/** Anything else. */
export interface TextPreview {
  kind: "text";
  text: string;
}

export type Preview = DiffPreview | CommandPreview | TextPreview;

/** One possible answer. */
export interface ApprovalOption {
  id: OptionId;
  label: string;
  /** the rule that would be written, in words */
  rule?: string;
  tool?: string;
  /** that rule as `rule/add` takes it, for a client that lets the user change it first */
  pattern?: string;
  matches: string[];
  /** what it would cover, and what not though one might think so */
  excludes: string[];
}

/** May this call run? Asked for one digest: exact arguments and the versions of the documents they touch. */
export interface ApprovalRequest {
  approvalId: string;
  sessionId: string;
  turnId: string;
  call: ToolCall;
  /** why it is asked */
  reason: string;
  digest: string;
  preview: Preview;
  options: ApprovalOption[];
  /** whether an answer may change the arguments */
  amendable: boolean;
}

/** The user's answer. A question closed without one is not an answer: leave the request open, or answer it with `-32800` when the client goes away. */
export interface ApprovalAnswer {
  optionId: OptionId;
  /** goes to the model with a refusal */
  feedback?: string;
  /** the arguments as the user amended them: validated again, and what runs, is shown and is recorded */
  args?: Record<string, unknown>;
}

/** A question is over: clear it. */
export interface ApprovalResolved {
  approvalId: string;
  sessionId: string;
  /** what was answered, or `cancelled` */
  optionId: string;
  /** the surface that answered */
  by: string;
}

/** Which questions. */
export interface ApprovalListParams {
  sessionId?: string;
}

/** Questions still waiting, oldest first. */
export interface ApprovalListResult {
  approvals: ApprovalRequest[];
}

/** An answer to a question that was seen in `session/load` or `approval/list`. */
export interface ApprovalAnswerParams {
  approvalId: string;
  optionId: OptionId;
  feedback?: string;
  args?: Record<string, unknown>;
}

/** Whether this answer was the first. */
export interface ApprovalAnswerResult {
  accepted: boolean;
}

/** Which of our requests the client answers. */
export interface ClientAbilities {
  approvals?: boolean;
  /** `editor/open` and `editor/save` */
  save?: boolean;
  diagnostics?: boolean;
  codeActions?: boolean;
  /** `editor/symbols`, `definition`, `references`, `rename` */
  symbols?: boolean;
  diff?: boolean;
  /** `user/ask`; taken as true when `approvals` is */
  ask?: boolean;
}

/** `initialize.initializationOptions.pilotfish`. A client that sends none is a plain client. */
export interface Hello {
  protocolVersion?: number;
  client?: ClientAbilities;
  /** workspace trust, as the editor knows it */
  trusted?: boolean;
  /** what the editor's user has set */
  settings?: Settings;
}

/** `capabilities.experimental.pilotfish` of the answer to `initialize`. */
export interface HelloResult {
  protocolVersion: number;
  version: string;
  methods: string[];
}

/** A fresh conversation. What is left out comes from the settings. */
export interface SessionNewParams {
  /** a URI; absent: the first workspace folder */
  workspaceFolder?: string;
  title?: string;
  model?: string;
  mode?: Mode;
}

/** A session as it is now. */
export interface SessionResult {
  session: Session;
}

/** Which sessions. */
export interface SessionListParams {
  workspaceFolder?: string;
  /** searches titles and texts */
  query?: string;
  cursor?: string;
  /** at most 500 come on one page */
  limit?: number;
}

/** Newest first. */
export interface SessionListResult {
  sessions: Session[];
  nextCursor?: string;
}

/** The newest items, or those before one that is already known. */
export interface SessionLoadParams {
  sessionId: string;
  /** the id of the oldest item the client has */
  before?: string;
  /** at most 2000 come on one page */
  limit?: number;
}

/** A page of the transcript, oldest first. Updates go on at `lastSeq + 1`. */
export interface SessionLoadResult {
  session: Session;
  items: Item[];
  hasMore: boolean;
  lastSeq: number;
  pendingApprovals: ApprovalRequest[];
}

/** A new title. */
export interface SessionRenameParams {
  sessionId: string;
  title: string;
}

/** Which session. */
export interface SessionParams {
  sessionId: string;
}

/** A copy of a session, up to and including an item; absent: whole. */
export interface SessionForkParams {
  sessionId: string;
  itemId?: string;
}

/** The transcript as text. */
export interface SessionExportParams {
  sessionId: string;
  format: "markdown" | "json";
}

/** The exported text. */
export interface SessionExportResult {
  text: string;
}

/** Another model or mode, from the next request to the model on. */
export interface SessionConfigureParams {
  sessionId: string;
  model?: string;
  mode?: Mode;
}

/** A prompt. Held until its turn has ended. */
export interface PromptParams {
  sessionId: string;
  prompt: ContentBlock[];
  /** the client's own name for it */
  promptId?: string;
  /** while a turn runs: error 2, wait for its end, or reach the model at its next step */
  whenBusy?: "reject" | "queue" | "steer";
}

/** How the turn ended. A provider that fails is no JSON-RPC error, it is `failed`. */
export interface PromptResult {
  turnId: string;
  stopReason: StopReason;
  usage: Usage;
  error?: Failure;
  receipt?: Receipt;
  /** what a slash command answered (Markdown); no turn was run, and `turnId` is empty */
  reply?: string;
  /** after `/clear`: the session to go on in */
  sessionId?: string;
}

/** Stop the turn, or with `toolCallId` only that call: then the turn goes on. */
export interface CancelParams {
  sessionId: string;
  toolCallId?: string;
}

/** Which turn's files; absent: the last turn that changed some. */
export interface UndoParams {
  sessionId: string;
  turnId?: string;
  dryRun?: boolean;
}

/** A file put back (or, with `dryRun`, that would be). */
export interface UndoneFile {
  uri: string;
  change: Change;
  added: number;
  removed: number;
}

/** A file left alone. */
export interface RefusedFile {
  uri: string;
  reason: string;
}

/** What was put back and what was not: a later edit by a person is never overwritten. */
export interface UndoResult {
  changes: UndoneFile[];
  refused: RefusedFile[];
  turnId?: string;
}

/** A prompt that waits for the running turn, or for its next step. */
export interface QueuedPrompt {
  promptId: string;
  prompt: ContentBlock[];
  kind: "queue" | "steer";
}

/** In the order they will be taken up. */
export interface QueueListResult {
  prompts: QueuedPrompt[];
}

/** Withdraw a waiting prompt; it answers with `cancelled`. */
export interface QueueRemoveParams {
  sessionId: string;
  promptId: string;
}

/** A standing answer. Deny beats ask beats allow. */
export interface Rule {
  id: string;
  decision: "allow" | "ask" | "deny";
  tool: string;
  pattern: string;
  /** workspace rules are kept in the user's own config, keyed by folder; a repository's can only tighten */
  scope: "session" | "workspace" | "user" | "repository";
  /** the rule in words */
  words: string;
  sessionId?: string;
  workspaceFolder?: string;
}

/** The rules that hold in a session, or in general. */
export interface RuleListParams {
  sessionId?: string;
}

/** Strongest first. */
export interface RuleListResult {
  rules: Rule[];
}

/** A new standing answer. `session` needs a session; `workspace` takes that session's folder or the first. */
export interface RuleAddParams {
  decision: "allow" | "ask" | "deny";
  tool?: string;
  pattern?: string;
  scope?: "session" | "workspace" | "user";
  sessionId?: string;
}

/** The rule as it stands now. */
export interface RuleAddResult {
  rule: Rule;
}

/** A rule's id, from `rule/list`. */
export interface RuleRemoveParams {
  id: string;
  sessionId?: string;
}

/** A key from the editor's secret store, kept in memory only. An empty key forgets it. */
export interface SecretSetParams {
  provider: string;
  key: string;
}

/** Dollars for a million tokens, as far as a table knows them. */
export interface Price {
  input: number;
  output: number;
}

/** A model one could choose. */
export interface Model {
  id: string;
  label: string;
  provider: string;
  available: boolean;
  /** why it is not available, and what to do */
  reason?: string;
  contextWindow?: number;
  price?: Price;
  /** whether it takes images; absent: nobody says */
  images?: boolean;
}

/** What is available, and why the rest is not. */
export interface ModelListResult {
  models: Model[];
  current: string;
}

/** A slash command. Sent as the text of a prompt: `/name arguments`. */
export interface Command {
  name: string;
  description: string;
  argumentHint?: string;
  source: "built-in" | "user" | "workspace";
}

/** Built in first, then the user's, then the workspace's. */
export interface CommandListResult {
  commands: Command[];
}

/** What stands behind the `@`. */
export interface MentionParams {
  query: string;
  /** at most 200 */
  limit?: number;
  sessionId?: string;
}

/** Something that can be mentioned. */
export interface Mention {
  kind: "file" | "folder" | "buffer" | "symbol";
  uri: string;
  /** what is shown */
  label: string;
  /** what stands in the prompt behind the `@`, in quotes where the name needs them */
  insert: string;
  detail?: string;
  range?: Range;
}

/** Best first. */
export interface MentionResult {
  mentions: Mention[];
}

/** An MCP server of the user's. */
export interface McpServer {
  name: string;
  state: string;
  tools: number;
  error?: string;
}

/** Where sessions are kept. */
export interface StoreStatus {
  location: string;
  /** unsaved: the directory cannot be written, sessions are in memory only */
  state: "ok" | "unsaved";
}

/** How the server is. Answered at once, even while the rest loads: what is not known yet is null. */
export interface Status {
  version: string;
  state: "loading" | "ready" | "failed";
  uptimeMs: number;
  memoryBytes: number;
  /** why loading failed */
  error?: Failure;
  model: string | null;
  mode: Mode | null;
  trusted: boolean;
  store: StoreStatus | null;
  mcpServers: McpServer[];
  /** what commands run in, or `none` and why */
  sandbox: string | null;
  runningTurns: number;
  pendingApprovals: number;
  /** settings that were left out, and why */
  problems: string[];
}

/** The user's trust in the workspace changed. */
export interface TrustParams {
  trusted: boolean;
}

/** One thing that happened. `seq` starts at 1 in a session and grows by exactly 1. */
export interface UpdateParams {
  sessionId: string;
  /** empty for what belongs to no turn */
  turnId: string;
  seq: number;
  update: Update;
}

/** A question of the agent's, in its own words. */
export interface AskParams {
  sessionId: string;
  turnId: string;
  question: string;
  options: string[];
}

/** The answer, or that there is none. */
export interface AskResult {
  answer?: string;
  dismissed?: boolean;
}

/** Which documents. */
export interface UrisParams {
  uris: string[];
}

/** A document with which it did not work. */
export interface FailedDocument {
  uri: string;
  reason: string;
}

/** A document the editor holds now. */
export interface OpenedDocument {
  uri: string;
  version: number;
  dirty: boolean;
}

/** `didOpen` of every opened document comes before this answer. */
export interface OpenResult {
  opened: OpenedDocument[];
  failed?: FailedDocument[];
}

/** Saved means that text and disk are equal. */
export interface SaveResult {
  saved: string[];
  failed?: FailedDocument[];
}

/** All documents, or one, perhaps not before its language servers have seen a version. */
export interface DiagnosticsParams {
  uri?: string;
  waitForVersion?: number;
  timeoutMs?: number;
}

/** What is wrong in a document. */
export interface DocumentDiagnostics {
  uri: string;
  version?: number;
  diagnostics: Diagnostic[];
}

/** Documents with diagnostics. */
export interface DiagnosticsResult {
  documents: DocumentDiagnostics[];
}

/** What other language servers offer for a range. */
export interface CodeActionsParams {
  uri: string;
  range: Range;
  /** code action kinds */
  only?: string[];
}

/** LSP's CodeAction, resolved. */
export interface CodeActionsResult {
  actions: Record<string, unknown>[];
}

/** A place in a document. */
export interface PlaceParams {
  uri: string;
  position: Position;
}

/** Who uses this? */
export interface ReferencesParams {
  uri: string;
  position: Position;
  includeDeclaration: boolean;
}

/** LSP's Location. */
export interface LocationsResult {
  locations: Location[];
}

/** Symbols of a document, or of the workspace by name. */
export interface SymbolsParams {
  uri?: string;
  query?: string;
}

/** LSP's DocumentSymbol, or WorkspaceSymbol. */
export interface SymbolsResult {
  symbols: Record<string, unknown>[];
}

/** What would have to change? */
export interface RenameParams {
  uri: string;
  position: Position;
  newName: string;
}

/** LSP's WorkspaceEdit; not applied yet. */
export interface RenameResult {
  edit?: Record<string, unknown>;
}

/** Show a diff, without taking the focus. */
export interface DiffParams {
  title: string;
  uri: string;
  before: string;
  after: string;
}

/** The argument of the client-side command `pilotfish.openChat`, which code actions carry for clients with a chat: open it with this prompt and its context attached, and send it when `send` is true. */
export interface ChatDraft {
  prompt: ContentBlock[];
  send: boolean;
}

/** Hard limits of one turn; absent means none. */
export interface Budget {
  /** input and output together */
  tokens?: number;
  /** in US dollars, for models whose price is known */
  cost?: number;
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
  /** used when the first one is overloaded or out of reach */
  fallbackModel?: string;
  /** what runs without a question: reading (`ask`), reading and nothing else at all (`plan`), edits too (`edit`), and commands too (`auto`) */
  mode?: Mode;
  /** requests to the model in one turn */
  maxIterations?: number;
  /** calls that are sent again with arguments and output; older ones only by name */
  toolHistoryRounds?: number;
  /** the newest output that is never left out, in tokens */
  protectTokens?: number;
  /** less than this is not worth losing the provider's prompt cache for */
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
  /** hard limits of one turn */
  budget?: Budget;
  /** path of a file with MCP servers */
  mcpConfig?: string;
  /** directory, or database URL, in which sessions are kept */
  storage?: string;
  /** in tokens, for models that do not tell theirs */
  contextWindow?: number;
  /** how much the model thinks first, where it can; absent: its own default */
  thinking?: "off" | "low" | "medium" | "high";
  /** absent: the model's own default */
  temperature?: number;
  /** whether commands are confined where the system can do so */
  sandbox?: "auto" | "off";
  /** whether `web_fetch`, and commands where they are confined, may use the network */
  network?: boolean;
  /** traces by OpenTelemetry, to where its own environment variables say */
  telemetry?: boolean;
}

/** What the client asks. */
export interface ClientRequests {
  /** Start a conversation. */
  "pilotfish/session/new": { params: SessionNewParams; result: SessionResult };
  /** Find conversations. */
  "pilotfish/session/list": { params: SessionListParams; result: SessionListResult };
  /** Read a transcript. */
  "pilotfish/session/load": { params: SessionLoadParams; result: SessionLoadResult };
  /** Give it another title. */
  "pilotfish/session/rename": { params: SessionRenameParams; result: SessionResult };
  /** Delete it for good. */
  "pilotfish/session/delete": { params: SessionParams; result: Empty };
  /** Copy it, up to an item. */
  "pilotfish/session/fork": { params: SessionForkParams; result: SessionResult };
  /** The transcript as text. */
  "pilotfish/session/export": { params: SessionExportParams; result: SessionExportResult };
  /** Another model or mode. */
  "pilotfish/session/configure": { params: SessionConfigureParams; result: SessionResult };
  /** Run a turn; answered when it has ended. */
  "pilotfish/session/prompt": { params: PromptParams; result: PromptResult };
  /** Stop a turn, or one call. */
  "pilotfish/session/cancel": { params: CancelParams; result: Receipt };
  /** Ask the provider again now, without the rest of a wait. */
  "pilotfish/session/retry": { params: SessionParams; result: Empty };
  /** Put back the files a turn changed. */
  "pilotfish/session/undo": { params: UndoParams; result: UndoResult };
  /** Put them forward again. */
  "pilotfish/session/redo": { params: UndoParams; result: UndoResult };
  /** Prompts that wait. */
  "pilotfish/queue/list": { params: SessionParams; result: QueueListResult };
  /** Withdraw one. */
  "pilotfish/queue/remove": { params: QueueRemoveParams; result: Empty };
  /** Questions that wait. */
  "pilotfish/approval/list": { params: ApprovalListParams; result: ApprovalListResult };
  /** Answer one of them. */
  "pilotfish/approval/answer": { params: ApprovalAnswerParams; result: ApprovalAnswerResult };
  /** Standing rules, with their scope. */
  "pilotfish/rule/list": { params: RuleListParams; result: RuleListResult };
  /** Add one. */
  "pilotfish/rule/add": { params: RuleAddParams; result: RuleAddResult };
  /** Remove one. */
  "pilotfish/rule/remove": { params: RuleRemoveParams; result: Empty };
  /** Hand over a provider's key. */
  "pilotfish/secret/set": { params: SecretSetParams; result: Empty };
  /** Models, and which are available. */
  "pilotfish/model/list": { params: Empty; result: ModelListResult };
  /** Slash commands. */
  "pilotfish/command/list": { params: Empty; result: CommandListResult };
  /** Completions for `@`. */
  "pilotfish/mention/complete": { params: MentionParams; result: MentionResult };
  /** How the server is. */
  "pilotfish/status": { params: Empty; result: Status };
}

/** What the client tells. */
export interface ClientNotifications {
  /** The user's trust in the workspace changed. */
  "pilotfish/trust/changed": TrustParams;
}

/** What the server asks. */
export interface ServerRequests {
  /** May this call run? */
  "pilotfish/approval/request": { params: ApprovalRequest; result: ApprovalAnswer };
  /** The agent asks the user. */
  "pilotfish/user/ask": { params: AskParams; result: AskResult };
  /** Hold documents: no tab, no focus. */
  "pilotfish/editor/open": { params: UrisParams; result: OpenResult };
  /** Save documents. */
  "pilotfish/editor/save": { params: UrisParams; result: SaveResult };
  /** What is wrong. */
  "pilotfish/editor/diagnostics": { params: DiagnosticsParams; result: DiagnosticsResult };
  /** What others offer. */
  "pilotfish/editor/codeActions": { params: CodeActionsParams; result: CodeActionsResult };
  /** Where is this defined? */
  "pilotfish/editor/definition": { params: PlaceParams; result: LocationsResult };
  /** Who uses this? */
  "pilotfish/editor/references": { params: ReferencesParams; result: LocationsResult };
  /** What is in here? */
  "pilotfish/editor/symbols": { params: SymbolsParams; result: SymbolsResult };
  /** What would a rename change? */
  "pilotfish/editor/rename": { params: RenameParams; result: RenameResult };
  /** Show a diff. */
  "pilotfish/editor/diff": { params: DiffParams; result: Empty };
}

/** What the server tells. */
export interface ServerNotifications {
  /** Something happened in a session. */
  "pilotfish/session/update": UpdateParams;
  /** A question is over. */
  "pilotfish/approval/resolved": ApprovalResolved;
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
