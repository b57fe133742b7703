/** How long to wait before a server that fell is started again. */

/** Before each new start, in ms; after the last there is none. */
const WAITS = [0, 1000, 3000, 10_000, 30_000];
/** Falls longer ago than this are forgiven, in ms. */
const STEADY = 120_000;

export class BackOff {
  private falls: readonly number[] = [];

  /** Falls that still count. */
  get count(): number {
    return this.falls.length;
  }

  /** It fell now: how long to wait, or undefined when it has fallen too often. */
  fell(now: number): number | undefined {
    this.falls = [...this.falls.filter((at) => now - at < STEADY), now];
    return WAITS[this.falls.length - 1];
  }

  /** The user wants it to start: everything is forgiven. */
  forgive(): void {
    this.falls = [];
  }
}
