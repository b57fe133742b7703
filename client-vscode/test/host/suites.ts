/** Collects suites, which are defined when mocha has started and not when their module is loaded. */
export function suite(define: () => void): void {
  const holder = globalThis as unknown as { suites?: (() => void)[] };
  holder.suites = [...(holder.suites ?? []), define];
}
