/** Formats numbers, times, paths, statuses and prompts for display. */

import type { CallStatus, ContentBlock, Mode, Range, ToolCall } from '../../src/protocol.gen.ts';
import type { Announcement } from '../state/state.ts';
import { l10n } from './l10n.ts';

export function duration(ms: number): string {
  if (ms < 950) return l10n.t('<1s');
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return l10n.t('{0}s', seconds);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 ? l10n.t('{0}m {1}s', minutes, seconds % 60) : l10n.t('{0}m', minutes);
  return l10n.t('{0}h {1}m', Math.floor(minutes / 60), minutes % 60);
}

export function count(n: number): string {
  if (n < 1000) return String(n);
  if (n < 100_000) return `${(n / 1000).toFixed(1).replace(/\.0$/, '')}k`;
  if (n < 1_000_000) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1).replace(/\.0$/, '')}M`;
}

export function bytes(n: number): string {
  if (n < 1024) return l10n.t('{0} B', n);
  if (n < 1024 * 1024) return l10n.t('{0} kB', Math.round(n / 1024));
  return l10n.t('{0} MB', (n / 1024 / 1024).toFixed(1));
}

export function money(cost: number): string {
  if (cost === 0) return '$0';
  return cost < 0.01 ? '<$0.01' : `$${cost.toFixed(2)}`;
}

export function ago(iso: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (minutes < 1) return l10n.t('now');
  if (minutes < 60) return l10n.t('{0}m', minutes);
  if (minutes < 60 * 24) return l10n.t('{0}h', Math.floor(minutes / 60));
  return l10n.t('{0}d', Math.floor(minutes / 60 / 24));
}

export function files(n: number): string {
  return n === 1 ? l10n.t('1 file') : l10n.t('{0} files', n);
}

export function moreLines(n: number): string {
  return n === 1 ? l10n.t('1 more line') : l10n.t('{0} more lines', n);
}

/** The last segment of a URI or path. */
export function basename(uri: string): string {
  const path = decode(uri).replace(/[\\/]+$/, '');
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
}

/** Removes the path of the file from a reason, because it is shown next to the reason. */
export function withoutPath(reason: string, uri: string): string {
  return uri === '' ? reason : reason.replace(decode(uri), '').trim();
}

/** The path relative to the workspace folder, or the whole path if the file is outside. */
export function relative(uri: string, folder: string | undefined): string {
  const path = decode(uri);
  const root = folder === undefined ? '' : decode(folder).replace(/\/$/, '');
  return root !== '' && path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}

/** The directory in which a command runs, or undefined if it is the workspace folder itself. */
export function workingDirectory(cwd: string, folder: string | undefined): string | undefined {
  const root = folder === undefined ? undefined : decode(folder).replace(/\/$/, '');
  const path = cwd.replace(/(?<=.)\/$/, '');
  if (path === root) return undefined;
  return root !== undefined && path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}

function decode(uri: string): string {
  const path = uri.replace(/^[a-z][\w+.-]*:\/\/[^/]*/i, '');
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

export function statusLabel(status: CallStatus): string {
  switch (status) {
    case 'pending':
      return l10n.t('Queued');
    case 'awaiting_approval':
      return l10n.t('Waiting');
    case 'in_progress':
      return l10n.t('Running');
    case 'completed':
      return l10n.t('Done');
    case 'failed':
      return l10n.t('Failed');
    case 'denied':
      return l10n.t('Denied');
    case 'cancelled':
      return l10n.t('Stopped');
    default:
      return status satisfies never;
  }
}

export function modeTitle(mode: Mode): string {
  switch (mode) {
    case 'ask':
      return l10n.t('Ask first');
    case 'plan':
      return l10n.t('Plan only');
    case 'edit':
      return l10n.t('Edit freely');
    case 'auto':
      return l10n.t('Autonomous');
    default:
      return mode satisfies never;
  }
}

export function announcementText(announcement: Announcement): string {
  switch (announcement.what) {
    case 'working':
      return l10n.t('Working');
    case 'ready':
      return l10n.t('Reply ready');
    case 'stopped':
      return l10n.t('Stopped');
    case 'callFailed':
      return l10n.t('{0} failed', escaped(announcement.detail));
    case 'approval':
      return l10n.t('Approval needed: {0}', escaped(announcement.detail));
    case 'asked':
      return l10n.t('Question: {0}', escaped(announcement.detail));
    case 'failed':
      return escaped(announcement.detail);
    default:
      return announcement.what satisfies never;
  }
}

/** The text of a prompt without its attachments. */
export function promptText(prompt: readonly ContentBlock[]): string {
  const textBlock = prompt.find((block) => block.type === 'text');
  return textBlock?.text ?? '';
}

/** Removes the provider from a model id: `openai-chat:gpt-x` → `gpt-x`. */
export function modelName(id: string): string {
  return id.slice(id.indexOf(':') + 1);
}

/** Characters that can hide or reorder text: controls, zero-width and bidi marks, Unicode line separators, tags. */
const HIDDEN_CHARACTERS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Escapes every character that can hide or reorder text, for example as `\u{202e}`. */
export function escaped(text: string): string {
  return text.replace(HIDDEN_CHARACTERS, (mark) => `\\u{${(mark.codePointAt(0) ?? 0).toString(16)}}`);
}

/** The lines of a range, counted from 1. A range that ends at the start of a line does not include that line. */
export function lineRange({ start, end }: Range): string {
  const last = end.character === 0 && end.line > start.line ? end.line : end.line + 1;
  return last === start.line + 1 ? `${last}` : `${start.line + 1}–${last}`;
}

/** Formats a reason as a sentence. A leading name, as in `rm deletes …`, is not capitalised. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return '';
  const startsWithWord = /^(it|this|the|an?|no|not)\b/.test(trimmed);
  const capitalised = startsWithWord ? trimmed.charAt(0).toUpperCase() + trimmed.slice(1) : trimmed;
  return /[.!?…:]$/.test(capitalised) ? capitalised : `${capitalised}.`;
}

/** The title of an approval, for example "Run npm test?". */
export function questionTitle(call: ToolCall): string {
  const title = escaped((call.title || call.name).split('\n', 1)[0] ?? '');
  return title.endsWith('?') ? title : `${title}?`;
}

/** What a command does beyond its text: whether it runs in the background, and when it is ended. */
export function commandNotes({ args }: ToolCall): readonly string[] {
  return [
    ...(args.background === true ? [l10n.t('in the background')] : []),
    ...(typeof args.timeout === 'number' ? [l10n.t('for at most {0}', duration(args.timeout * 1000))] : []),
  ];
}

/** Letters of another alphabet inside a word of Latin letters: they look like others, as in `pаypal` with a Cyrillic а. */
export function lookAlikes(text: string): readonly string[] {
  const words = text.match(/[\p{L}\p{N}_.-]+/gu) ?? [];
  const mixed = words.filter((word) => /\p{Script=Latin}/u.test(word));
  const marks = mixed.flatMap(
    (word) =>
      word.match(/[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\uff21-\uff5a]/gu) ?? [],
  );
  return [...new Set(marks)].map(
    (mark) => `${mark} (U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')})`,
  );
}
