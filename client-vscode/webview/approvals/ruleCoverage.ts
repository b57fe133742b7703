/** Counts how many earlier calls a rule matches, to illustrate the rule. The server decides what a rule allows. */

import type { Call, Turn } from '../state/state.ts';

const MAX_CALLS = 50;
/** A line with one of these characters can be more than one command. */
const CHAINED = /[;&|<>`$()\n\\]/;

/** How many of the newest calls of this tool the pattern matches, and how many there are. */
export function coverage(turns: readonly Turn[], tool: string, pattern: string): { covered: number; of: number } {
  const calls = turns
    .flatMap((turn) => turn.entries)
    .filter((entry): entry is Call => entry.kind === 'tool_call' && entry.call.name === tool)
    .slice(-MAX_CALLS);
  return { covered: calls.filter((entry) => covers(pattern, callSubject(entry))).length, of: calls.length };
}

/** `npm test` matches exactly that line. `npm test *` also matches it with arguments, but not with chained commands. */
export function covers(pattern: string, line: string): boolean {
  if (pattern === '*' || pattern === line) return true;
  if (!pattern.endsWith(' *') || CHAINED.test(line)) return false;
  const prefix = pattern.slice(0, -2);
  return line === prefix || line.startsWith(`${prefix} `);
}

function callSubject({ call }: Call): string {
  const { command, path } = call.args;
  return typeof command === 'string' ? command.trim() : typeof path === 'string' ? path : '';
}
