/** Decides how long to wait before a crashed server is restarted. */

/** The wait before each restart, in ms. There is no restart after the last one. */
const WAITS = [0, 1000, 3000, 10_000, 30_000];
/** Crashes older than this no longer count, in ms. */
const FORGET_AFTER = 120_000;

export class RestartBackoff {
  private crashes: readonly number[] = [];

  /** The number of recent crashes. */
  get count(): number {
    return this.crashes.length;
  }

  /** Records a crash. Returns how long to wait before the restart, or undefined after too many crashes. */
  recordCrash(now: number): number | undefined {
    this.crashes = [...this.crashes.filter((at) => now - at < FORGET_AFTER), now];
    return WAITS[this.crashes.length - 1];
  }

  /** Forgets all crashes, because the user restarts the server. */
  reset(): void {
    this.crashes = [];
  }
}
