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

/** Why a turn failed in a few words, what the user can do as buttons, and the provider's own words on demand. */
export function FailureBox({ failure, turn, last }: { failure: Failure; turn: Turn; last: boolean }) {
  const known = headline(failure);
  return (
    <div class="notice error boxed" role="alert">
      <Icon name="error" />
      <div>
        <span>{known ?? failure.message}</span>
        {known === undefined && <span class="remedy">{failure.remedy}</span>}
        {last && (
          <div class="card-buttons">
            {retries(failure) && (
              <Button kind="primary" onPress={() => resend(turn.prompt)}>
                {failure.kind === 'rate_limit' ? l10n.t('Retry now') : l10n.t('Retry')}
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
        {known !== undefined && (
          <details class="failure-details" aria-label={l10n.t('Details')}>
            <summary>{l10n.t('Details')}</summary>
            <p>{failure.message}</p>
            <p>{failure.remedy}</p>
          </details>
        )}
      </div>
    </div>
  );
}

/** undefined: the server's own message says it best. */
function headline(failure: Failure): string | undefined {
  switch (failure.kind) {
    case 'authentication':
      return l10n.t('Provider rejected the key.');
    case 'rate_limit':
      return failure.retryAfter === undefined
        ? l10n.t('Rate limited.')
        : l10n.t('Rate limited. It can be tried again in {0}.', duration(failure.retryAfter * 1000));
    case 'network':
      return l10n.t("Can't reach the provider. Your prompt is kept.");
    case 'context':
      return l10n.t('Conversation too long.');
    case 'credit':
      return l10n.t('Provider reports no credit.');
    case 'overloaded':
      return l10n.t('The provider is overloaded.');
    default:
      return undefined;
  }
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
