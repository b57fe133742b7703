/** What the chat's page says, looked at before it is believed. The page shows what a model wrote: should its markup ever
 * run, it must find no message here that the view itself would not send. */

import type { Chip, Draft, FromView, NewRule, ReviewFile, ViewCommand } from '../../webview/messages.ts';
import type { ContentBlock, OptionId } from '../protocol.gen.ts';

type Check = (value: unknown) => boolean;
/** For every message its fields; one that is not named may not be there. */
type Shape<T> = { [Field in Exclude<keyof T, 'type'>]-?: Check };
type Shapes = { [T in FromView['type']]: Shape<Extract<FromView, { type: T }>> };

const text: Check = (value) => typeof value === 'string';
const flag: Check = (value) => typeof value === 'boolean';
const index: Check = (value) => Number.isInteger(value) && (value as number) >= 0;
const record: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const nothing: Check = (value) => value === undefined;
const or =
  (...checks: readonly Check[]): Check =>
  (value) =>
    checks.some((check) => check(value));
const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const one =
  <T extends string>(...of: readonly T[]): Check =>
  (value) =>
    of.some((word) => word === value);
const nil: Check = (value) => value === null;
/** A value with these fields. */
const like =
  <T>(fields: { [Field in keyof T]-?: Check }): Check =>
  (value) =>
    record(value) &&
    Object.entries<Check>(fields).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const OPTIONS: Record<OptionId, true> = {
  allow_once: true,
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
  settings: true,
  attachPick: true,
  explain: true,
  trust: true,
  rules: true,
  otherWaiting: true,
};
const BLOCKS: Record<ContentBlock['type'], true> = { text: true, resource: true, image: true, diagnostic: true };

/** The server looks at the rest of a block, as it does for every client. */
const block: Check = (value) => record(value) && Object.hasOwn(BLOCKS, String((value as ContentBlock).type));
const prompt = list(block);
const chip = like<Chip>({
  id: text,
  label: text,
  detail: or(text, nothing),
  icon: one('file', 'folder', 'selection', 'image', 'paste', 'problem', 'symbol'),
  block,
});
const draft = like<Draft>({
  text,
  chips: list(chip),
  caret: index,
  scroll: or(like({ row: text, top: (value) => Number.isFinite(value) }), nothing),
});
const files = list(
  like<ReviewFile>({ uri: text, change: one('created', 'edited', 'deleted', 'renamed'), diffs: list(text) }),
);
const rule = like<NewRule>({ tool: text, pattern: text, scope: one('session', 'workspace', 'user') });

const SHAPES: Shapes = {
  ready: {},
  send: { promptId: text, prompt, draft, whenBusy: one('queue', 'steer') },
  resend: {
    turnId: text,
    promptId: text,
    prompt,
    laterTurns: list(text),
    files: one('keep', 'undo'),
  },
  stop: {},
  retryNow: {},
  forceStop: {},
  stopCall: { callId: text },
  answer: {
    approvalId: text,
    optionId: (value) => text(value) && Object.hasOwn(OPTIONS, value as string),
    feedback: or(text, nothing),
    args: or(record, nothing),
  },
  allowByRule: { approvalId: text, rule },
  answerAsk: { id: text, answer: or(text, nil) },
  visibleCards: { approvalIds: list(text), others: list(text), focused: or(text, nil) },
  amend: { approvalId: text },
  discardAmended: { approvalId: text },
  openDiff: { approvalId: text, file: index },
  openCallDiff: { uri: text, diff: text },
  review: { title: text, files },
  undo: { turnId: text, direction: one('undo', 'redo'), rest: flag },
  older: { before: text },
  reload: {},
  draft: { sessionId: or(text, nil), draft },
  mention: { query: text },
  withdraw: { promptId: text },
  editQueued: { promptId: text, prompt },
  steer: { promptId: text },
  reorder: { promptIds: list(text) },
  openLink: { href: text },
  openFile: { uri: text, line: or(index, nothing) },
  openText: { text, language: text },
  copy: { text },
  insert: { text },
  terminal: { text },
  applyCode: { text },
  dropped: { uris: list(text) },
  openSession: { sessionId: text },
  command: { command: (value) => text(value) && Object.hasOwn(COMMANDS, value as string) },
  problem: { what: text },
};

/** The message, if it is one; undefined: nobody here knows it. */
export function fromPage(said: unknown): FromView | undefined {
  if (!record(said)) return undefined;
  const { type, ...fields } = said as { type?: unknown };
  if (typeof type !== 'string' || !Object.hasOwn(SHAPES, type)) return undefined;
  const shape: Record<string, Check> = SHAPES[type as FromView['type']];
  const known = Object.keys(fields).every((name) => Object.hasOwn(shape, name));
  return known && like(shape)(fields) ? (said as FromView) : undefined;
}
