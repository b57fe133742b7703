/** The user's own version of a proposed change, as arguments of the same call. */

import type { ApprovalRequest } from '../protocol.gen.ts';

/** The call's arguments so that the file becomes `text`; undefined: this call cannot say it. */
export function amendedArgs(request: ApprovalRequest, file: number, text: string): Record<string, unknown> | undefined {
  if (request.preview.kind !== 'diff') return undefined;
  const shown = request.preview.files[file];
  if (!shown) return undefined;
  const { args } = request.call;
  const whole = Object.keys(args).find((name) => typeof args[name] === 'string' && args[name] === shown.after);
  if (whole !== undefined) return { ...args, [whole]: text };
  if (Array.isArray(args.edits) && shown.before !== null) {
    return { ...args, edits: [smallestEdit(shown.before, text)] };
  }
  return 'content' in args ? { ...args, content: text } : undefined;
}

/** One replacement that turns `before` into `after`: whole lines, with as much around them as makes the place unique. */
export function smallestEdit(before: string, after: string): { old_string: string; new_string: string } {
  const old = before.split('\n');
  const fresh = after.split('\n');
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < fresh.length - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  for (;;) {
    const text = old.slice(head, old.length - tail).join('\n');
    if ((text.trim() !== '' && isOnce(before, text)) || (head === 0 && tail === 0)) {
      return { old_string: text, new_string: fresh.slice(head, fresh.length - tail).join('\n') };
    }
    head = Math.max(0, head - 1);
    tail = Math.max(0, tail - 1);
  }
}

function isOnce(text: string, part: string): boolean {
  const first = text.indexOf(part);
  return first >= 0 && text.indexOf(part, first + 1) < 0;
}
