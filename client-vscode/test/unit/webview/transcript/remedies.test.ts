import { describe, expect, it } from 'vitest';
import type { FailureKind } from '../../../../src/protocol.gen.ts';
import {
  failureRemedies,
  headline,
  noticeRemedies,
  remediesWhileWaiting,
  remedyLabel,
} from '../../../../webview/transcript/remedies.ts';

const buttons = (kind: FailureKind) => failureRemedies(kind).map((remedy) => remedyLabel(remedy, kind));

describe('a failed turn', () => {
  it.each<[FailureKind, readonly string[]]>([
    ['authentication', ['Update API key', 'Switch model', 'Retry']],
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
  ])('of %s offers the most likely remedy first', (kind, offered) => {
    expect(buttons(kind)).toEqual(offered);
  });

  it('shows how long to wait if the provider says so', () => {
    expect([headline('rate_limit', '18s'), headline('rate_limit', undefined), headline('internal', undefined)]).toEqual(
      ['Rate limited. Try again in 18s.', 'Rate limited.', undefined],
    );
  });
});

describe('a turn that continues', () => {
  it('offers to change the model or settings while it waits', () => {
    const offered = (['rate_limit', 'overloaded', 'network', undefined] as const).map(remediesWhileWaiting);
    expect(offered).toEqual([['selectModel'], ['selectModel'], ['settings'], []]);
  });

  it('offers remedies at notices of permanent problems', () => {
    const offered = (['storage', 'bad_request', 'rate_limit', undefined] as const).map(noticeRemedies);
    expect(offered).toEqual([['showLog'], ['editPrompt', 'selectModel'], [], []]);
  });
});
