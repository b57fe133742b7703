import { describe, expect, it } from 'vitest';
import { RestartBackoff } from '../../../src/server/restartBackoff.ts';

describe('the wait before a restart', () => {
  it('grows with each crash, and there is no restart after the sixth crash in a row', () => {
    const backoff = new RestartBackoff();
    const waits = [1, 2, 3, 4, 5, 6].map((at) => backoff.recordCrash(at));
    expect(waits).toEqual([0, 1000, 3000, 10_000, 30_000, undefined]);
    expect(backoff.count).toBe(6);
  });

  it('starts over after two minutes without a crash', () => {
    const backoff = new RestartBackoff();
    backoff.recordCrash(0);
    backoff.recordCrash(1);
    expect(backoff.recordCrash(120_001)).toBe(0);
  });

  it('starts over when the user restarts the server', () => {
    const backoff = new RestartBackoff();
    for (let at = 0; at < 6; at += 1) backoff.recordCrash(at);
    backoff.reset();
    expect(backoff.recordCrash(7)).toBe(0);
  });
});
