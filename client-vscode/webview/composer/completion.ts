/** Completions for `@` mentions and `/` commands: finds the trigger before the caret and matches candidates. */

import type { Command, Mention } from '../../src/protocol.gen.ts';

export interface Trigger {
  kind: 'mention' | 'command';
  query: string;
  /** the index of `@` or `/` in the text */
  start: number;
}

const MAX_COMPLETIONS = 8;

/** The `@word` before the caret, or a `/word` at the start of the text. */
export function triggerAt(text: string, caret: number): Trigger | null {
  const before = text.slice(0, caret);
  const command = /^\/([\w-]*)$/.exec(before);
  if (command) return { kind: 'command', query: command[1] ?? '', start: 0 };
  const mention = /(?:^|[\s([{"'])@([^\s@]*)$/.exec(before);
  if (!mention) return null;
  const query = mention[1] ?? '';
  return { kind: 'mention', query, start: caret - query.length - 1 };
}

/** All commands that match; the user's own first, because there are more built-in ones than fit into the list. */
export function matchCommands(commands: readonly Command[], query: string): readonly Command[] {
  const prefix = query.toLowerCase();
  const ordered = commands.toSorted((a, b) => Number(a.source === 'built-in') - Number(b.source === 'built-in'));
  const starting = ordered.filter((command) => command.name.toLowerCase().startsWith(prefix));
  const inside = ordered.filter(
    (command) => !starting.includes(command) && command.name.toLowerCase().includes(prefix),
  );
  return [...starting, ...inside];
}

/** The cached completions of the query. Until the server answers, filters those of a shorter query. */
export function matchMentions(cache: ReadonlyMap<string, readonly Mention[]>, query: string): readonly Mention[] {
  const exact = cache.get(query);
  if (exact) return exact.slice(0, MAX_COMPLETIONS);
  for (let length = query.length - 1; length >= 0; length -= 1) {
    const earlier = cache.get(query.slice(0, length));
    if (earlier) return earlier.filter((mention) => isSubsequence(query, mention.insert)).slice(0, MAX_COMPLETIONS);
  }
  return [];
}

/** Replaces the trigger with a completion. Returns the new text and caret. */
export function accept(text: string, caret: number, trigger: Trigger, insert: string): { text: string; caret: number } {
  const sign = trigger.kind === 'command' ? '/' : '@';
  const head = `${text.slice(0, trigger.start)}${sign}${insert} `;
  return { text: head + text.slice(caret).replace(/^ /, ''), caret: head.length };
}

function isSubsequence(query: string, text: string): boolean {
  const wanted = query.toLowerCase();
  let at = 0;
  for (const letter of text.toLowerCase()) if (letter === wanted[at]) at += 1;
  return at >= wanted.length;
}
