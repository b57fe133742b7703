/** Which of the calls made so far a rule would have covered: a picture for the user, no decision. */

import type { Call, Turn } from '../state/state.ts';

const MOST = 50;
/** A line with any of these is more than one plain command. */
const CHAINED = /[;&|<>`$()\n\\]/;

/** How many of the newest calls of this tool the pattern covers, and of how many. */
export function coverage(turns: readonly Turn[], tool: string, pattern: string): { covered: number; of: number } {
  const calls = turns
    .flatMap((turn) => turn.entries)
    .filter((entry): entry is Call => entry.kind === 'tool_call' && entry.call.name === tool)
    .slice(-MOST);
  return { covered: calls.filter((entry) => covers(pattern, subjectOf(entry))).length, of: calls.length };
}

/** `npm test` is that very line; `npm test *` also with more behind it, but nothing chained to it. */
export function covers(pattern: string, line: string): boolean {
  if (pattern === '*' || pattern === line) return true;
  if (!pattern.endsWith(' *') || CHAINED.test(line)) return false;
  const words = pattern.slice(0, -2);
  return line === words || line.startsWith(`${words} `);
}

function subjectOf({ call }: Call): string {
  const { command, path } = call.args;
  return typeof command === 'string' ? command.trim() : typeof path === 'string' ? path : '';
}
