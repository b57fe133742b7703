import { describe, expect, it } from 'vitest';
import type { FailureKind } from '../../../../src/protocol.gen.ts';
import {
  headline,
  remediesOf,
  remediesOfNotice,
  remediesWhileWaiting,
  remedyWords,
} from '../../../../webview/transcript/remedies.ts';

const buttons = (kind: FailureKind) => remediesOf(kind).map((remedy) => remedyWords(remedy, kind));

describe('a failed turn', () => {
  it.each<[FailureKind, readonly string[]]>([
    ['authentication', ['Update key', 'Switch model', 'Retry']],
    ['configuration', ['Connect a model', 'Settings', 'Retry']],
    ['credit', ['Switch model', 'Retry']],
    ['rate_limit', ['Retry now', 'Switch model']],
    ['overloaded', ['Retry', 'Switch model']],
    ['stalled', ['Retry', 'Switch model']],
    ['empty', ['Retry', 'Switch model']],
    ['network', ['Retry', 'Settings']],
    ['bad_request', ['Edit prompt', 'Retry', 'Switch model', 'New session']],
    ['context', ['Summarise', 'New session', 'Switch model', 'Retry']],
    ['restarted', ['Continue', 'Retry', 'Show log']],
    ['storage', ['Retry', 'Show log']],
    ['internal', ['Retry', 'Show log']],
  ])('of %s offers what helps, the likeliest first', (kind, offered) => {
    expect(buttons(kind)).toEqual(offered);
  });

  it('says how long the provider wants to be left alone, when it says so', () => {
    expect([headline('rate_limit', '18s'), headline('rate_limit', undefined), headline('internal', undefined)]).toEqual(
      ['Rate limited. It can be tried again in 18s.', 'Rate limited.', undefined],
    );
  });
});

describe('a turn that goes on', () => {
  it('offers while it waits for the next try what would change that try', () => {
    const offered = (['rate_limit', 'overloaded', 'network', undefined] as const).map(remediesWhileWaiting);
    expect(offered).toEqual([['selectModel'], ['selectModel'], ['settings'], []]);
  });

  it('offers at a notice what does not pass by itself', () => {
    const offered = (['storage', 'bad_request', 'rate_limit', undefined] as const).map(remediesOfNotice);
    expect(offered).toEqual([['showLog'], ['editPrompt', 'selectModel'], [], []]);
  });
});
