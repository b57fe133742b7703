/** Something the user should know, with the remedy as a button where there is one. */

import type { Failure } from '../../src/protocol.gen.ts';
import { resend, summarise } from '../actions.ts';
import { l10n } from '../l10n.ts';
import type { ViewCommand } from '../messages.ts';
import type { Turn } from '../state.ts';
import { post } from '../store.ts';
import { duration } from '../words.ts';
import { Button, Icon, memo } from './parts.tsx';

export const NoticeRow = memo(
  ({
    level,
    message,
    remedy,
  }: {
    level: 'info' | 'warning' | 'error';
    message: string;
    remedy: string | undefined;
  }) => (
    <div class={`notice ${level}`} role={level === 'error' ? 'alert' : 'note'}>
      <Icon name={level === 'info' ? 'info' : level} />
      <div>
        <span>{message}</span>
        {remedy && <span class="remedy">{remedy}</span>}
      </div>
    </div>
  ),
);

/** Why a turn failed; what the user can do about it, as buttons. */
export function FailureBox({ failure, turn, last }: { failure: Failure; turn: Turn; last: boolean }) {
  const wait =
    failure.retryAfter === undefined
      ? ''
      : ` ${l10n.t('The provider asks to wait {0}.', duration(failure.retryAfter * 1000))}`;
  return (
    <div class="notice error boxed" role="alert">
      <Icon name="error" />
      <div>
        <span>
          {failure.message}
          {wait}
        </span>
        <span class="remedy">{failure.remedy}</span>
        {last && (
          <div class="card-buttons">
            {retries(failure) && (
              <Button kind="primary" onPress={() => resend(turn)}>
                {l10n.t('Retry')}
              </Button>
            )}
            {failure.kind === 'context' && (
              <Button kind="primary" onPress={summarise}>
                {l10n.t('Summarise')}
              </Button>
            )}
            {remedies(failure).map(({ label, command }) => (
              <Button key={command} onPress={() => post({ type: 'command', command })}>
                {label}
              </Button>
            ))}
          </div>
        )}
      </div>
    </div>
  );
}

function retries(failure: Failure): boolean {
  return (
    failure.retryable || ['network', 'stalled', 'rate_limit', 'overloaded', 'empty', 'internal'].includes(failure.kind)
  );
}

function remedies(failure: Failure): readonly { label: string; command: ViewCommand }[] {
  const another = { label: l10n.t('Switch model'), command: 'selectModel' } as const;
  switch (failure.kind) {
    case 'authentication':
      return [{ label: l10n.t('Update key'), command: 'setKey' }, another];
    case 'configuration':
      return [
        { label: l10n.t('Connect a model'), command: 'selectModel' },
        { label: l10n.t('Settings'), command: 'settings' },
      ];
    case 'rate_limit':
    case 'overloaded':
    case 'credit':
    case 'bad_request':
      return [another];
    case 'context':
      return [{ label: l10n.t('New session'), command: 'newSession' }, another];
    case 'storage':
    case 'internal':
      return [{ label: l10n.t('Show log'), command: 'showLog' }];
    case 'network':
    case 'stalled':
    case 'empty':
      return [];
    default:
      return failure.kind satisfies never;
  }
}
