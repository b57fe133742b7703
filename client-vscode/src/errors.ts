/** What went wrong, in words and by number. */

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The code of a JSON-RPC error; undefined: it is none. */
export function codeOf(error: unknown): number | undefined {
  return error && typeof error === 'object' && 'code' in error && typeof error.code === 'number'
    ? error.code
    : undefined;
}
