/**
 * Validates every message from the chat's page before the host acts on it.
 *
 * The page renders text that a model wrote. If such text ever ran as a script, it could only send messages that the
 * view itself sends.
 */

import type { Chip, Draft, FromView, NewRule, ReviewFile, ViewCommand } from '../../webview/messages.ts';
import type { ContentBlock, OptionId } from '../protocol.gen.ts';

type Check = (value: unknown) => boolean;
/** A check for every field of a message. A message with any other field is invalid. */
type Shape<T> = { [Field in Exclude<keyof T, 'type'>]-?: Check };
type Shapes = { [T in FromView['type']]: Shape<Extract<FromView, { type: T }>> };

const text: Check = (value) => typeof value === 'string';
const flag: Check = (value) => typeof value === 'boolean';
const index: Check = (value) => Number.isInteger(value) && (value as number) >= 0;
const record: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const absent: Check = (value) => value === undefined;
const anyOf =
  (...checks: readonly Check[]): Check =>
  (value) =>
    checks.some((check) => check(value));
const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const oneOf =
  <T extends string>(...literals: readonly T[]): Check =>
  (value) =>
    literals.some((literal) => literal === value);
const isNull: Check = (value) => value === null;
/** An object whose named fields pass their checks. */
const objectWith =
  <T>(fields: { [Field in keyof T]-?: Check }): Check =>
  (value) =>
    record(value) &&
    Object.entries<Check>(fields).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const OPTIONS: Record<OptionId, true> = {
  allow_once: true,
  allow_real: true,
  allow_session: true,
  allow_always: true,
  reject: true,
  reject_always: true,
};
const COMMANDS: Record<ViewCommand, true> = {
  newSession: true,
  selectModel: true,
  selectMode: true,
  configure: true,
  setKey: true,
  restart: true,
  showLog: true,
  install: true,
  cancelInstall: true,
  cancelTask: true,
  dismissTask: true,
  settings: true,
  attachPick: true,
  explain: true,
  openSample: true,
  trust: true,
  rules: true,
  otherWaiting: true,
};
const BLOCKS: Record<ContentBlock['type'], true> = {
  text: true,
  resource: true,
  image: true,
  diagnostic: true,
  context: true,
};

/** Only the type is checked here: the server validates the content of blocks for every client. */
const block: Check = (value) => record(value) && Object.hasOwn(BLOCKS, String((value as ContentBlock).type));
const prompt = list(block);
const chip = objectWith<Chip>({
  id: text,
  label: text,
  detail: anyOf(text, absent),
  icon: oneOf('file', 'folder', 'selection', 'image', 'paste', 'problem', 'symbol'),
  block,
});
const draft = objectWith<Draft>({
  text,
  chips: list(chip),
  caret: index,
  scroll: anyOf(objectWith({ row: text, top: (value) => Number.isFinite(value) }), absent),
});
const files = list(
  objectWith<ReviewFile>({ uri: text, change: oneOf('created', 'edited', 'deleted', 'renamed'), diffs: list(text) }),
);
const rule = objectWith<NewRule>({ tool: text, pattern: text, scope: oneOf('session', 'workspace', 'user') });

const SHAPES: Shapes = {
  ready: {},
  send: { promptId: text, prompt, draft, whenBusy: oneOf('queue', 'steer') },
  resend: {
    turnId: text,
    promptId: text,
    prompt,
    laterTurns: list(text),
    files: oneOf('keep', 'undo'),
  },
  stop: {},
  retryNow: {},
  forceStop: {},
  stopCall: { callId: text },
  answer: {
    approvalId: text,
    optionId: (value) => text(value) && Object.hasOwn(OPTIONS, value as string),
    feedback: anyOf(text, absent),
    args: anyOf(record, absent),
  },
  allowByRule: { approvalId: text, rule },
  answerAsk: { id: text, answer: anyOf(text, isNull) },
  allowTurnEdits: { approvalId: text },
  cards: { current: anyOf(text, isNull), listed: list(text) },
  amend: { approvalId: text },
  discardAmended: { approvalId: text },
  openDiff: { approvalId: text, file: index },
  openCallDiff: { uri: text, diff: text },
  review: { title: text, files },
  restore: { turnId: text, prompt: list(block) },
  build: {},
  fork: { turnId: text },
  redoRestored: { sessionId: text, turnIds: list(text) },
  undo: { turnId: text, direction: oneOf('undo', 'redo'), rest: flag },
  'review.decide': { decision: oneOf('keep', 'undo'), uri: anyOf(text, absent) },
  'review.open': { uri: text },
  older: { before: text },
  reload: {},
  draft: { sessionId: anyOf(text, isNull), draft },
  mention: { query: text },
  findMentions: { text: text },
  loadCommands: {},
  withdraw: { promptId: text },
  resumeQueue: {},
  clearQueue: {},
  editQueued: { promptId: text, prompt },
  steer: { promptId: text },
  reorder: { promptIds: list(text) },
  openLink: { href: text },
  openFile: { uri: text, line: anyOf(index, absent) },
  openText: { text, language: text },
  copy: { text },
  insert: { text },
  terminal: { text },
  applyCode: { text, info: text },
  dropContext: { dropped: flag },
  dropped: { uris: list(text) },
  openSession: { sessionId: text },
  command: { command: (value) => text(value) && Object.hasOwn(COMMANDS, value as string) },
  problem: { what: text },
};

/** Returns the message if it is valid, otherwise undefined. */
export function parseViewMessage(value: unknown): FromView | undefined {
  if (!record(value)) return undefined;
  const { type, ...fields } = value as { type?: unknown };
  if (typeof type !== 'string' || !Object.hasOwn(SHAPES, type)) return undefined;
  const shape: Record<string, Check> = SHAPES[type as FromView['type']];
  const hasOnlyKnownFields = Object.keys(fields).every((name) => Object.hasOwn(shape, name));
  return hasOnlyKnownFields && objectWith(shape)(fields) ? (value as FromView) : undefined;
}
