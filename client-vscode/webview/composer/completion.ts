/** What `@` and `/` offer: found in the text before the caret, filtered from what is already here. */

import type { Command, Mention } from '../../src/protocol.gen.ts';

export interface Trigger {
  kind: 'mention' | 'command';
  query: string;
  /** where the trigger's sign stands in the text */
  start: number;
}

export const MAX_OFFERS = 8;

/** The `@word` the caret stands behind, or the `/word` at the very start. */
export function triggerAt(text: string, caret: number): Trigger | null {
  const before = text.slice(0, caret);
  const command = /^\/([\w-]*)$/.exec(before);
  if (command) return { kind: 'command', query: command[1] ?? '', start: 0 };
  const mention = /(?:^|[\s([{"'])@([^\s@]*)$/.exec(before);
  if (!mention) return null;
  const query = mention[1] ?? '';
  return { kind: 'mention', query, start: caret - query.length - 1 };
}

export function offerCommands(commands: readonly Command[], query: string): readonly Command[] {
  const wanted = query.toLowerCase();
  const starting = commands.filter((command) => command.name.toLowerCase().startsWith(wanted));
  const inside = commands.filter(
    (command) => !starting.includes(command) && command.name.toLowerCase().includes(wanted),
  );
  return [...starting, ...inside].slice(0, MAX_OFFERS);
}

/** While the server's answer is on its way, what an earlier answer offers for the longer query. */
export function offerMentions(known: ReadonlyMap<string, readonly Mention[]>, query: string): readonly Mention[] {
  const exact = known.get(query);
  if (exact) return exact.slice(0, MAX_OFFERS);
  for (let length = query.length - 1; length >= 0; length -= 1) {
    const earlier = known.get(query.slice(0, length));
    if (earlier) return earlier.filter((mention) => isSubsequence(query, mention.insert)).slice(0, MAX_OFFERS);
  }
  return [];
}

/** Text and caret after an offer took the trigger's place. */
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
