/** Suites are defined when mocha is there, not when their module is loaded. */
export function suite(define: () => void): void {
  const holder = globalThis as unknown as { suites?: (() => void)[] };
  holder.suites = [...(holder.suites ?? []), define];
}
