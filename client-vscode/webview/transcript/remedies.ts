/** What helps against a failure, as acts that a button can do; what no button can do stays in words. */

import type { FailureKind } from '../../src/protocol.gen.ts';
import { l10n } from '../common/l10n.ts';
import type { ViewCommand } from '../messages.ts';

export type Remedy = 'retry' | 'continue' | 'editPrompt' | 'summarise' | HostRemedy;
/** Carried out by the extension. */
type HostRemedy = Extract<ViewCommand, 'selectModel' | 'setKey' | 'settings' | 'showLog' | 'newSession'>;

/** For a turn that has failed, the likeliest first. */
export function remediesOf(kind: FailureKind): readonly Remedy[] {
  switch (kind) {
    case 'authentication':
      return ['setKey', 'selectModel', 'retry'];
    case 'configuration':
      return ['selectModel', 'settings', 'retry'];
    case 'credit':
      return ['selectModel', 'retry'];
    case 'rate_limit':
    case 'overloaded':
    case 'stalled':
    case 'empty':
      return ['retry', 'selectModel'];
    case 'network':
      return ['retry', 'settings'];
    case 'bad_request':
      return ['editPrompt', 'retry', 'selectModel', 'newSession'];
    case 'context':
      return ['summarise', 'newSession', 'selectModel', 'retry'];
    case 'restarted':
      return ['continue', 'retry', 'showLog'];
    case 'storage':
    case 'internal':
      return ['retry', 'showLog'];
    default:
      return kind satisfies never;
  }
}

/** While the server waits before its next try: that one has a button of its own, and what it takes up is the new one. */
export function remediesWhileWaiting(kind: FailureKind | undefined): readonly Remedy[] {
  return kind === undefined ? [] : remediesOf(kind).filter((one) => one === 'selectModel' || one === 'settings');
}

/** For a notice of a turn that goes on. What may pass by itself is offered where it is waited for. */
export function remediesOfNotice(kind: FailureKind | undefined): readonly Remedy[] {
  switch (kind) {
    case 'storage':
      return ['showLog'];
    case 'bad_request':
      return ['editPrompt', 'selectModel'];
    default:
      return [];
  }
}

export function remedyWords(remedy: Remedy, kind: FailureKind): string {
  switch (remedy) {
    case 'retry':
      return kind === 'rate_limit' ? l10n.t('Retry now') : l10n.t('Retry');
    case 'continue':
      return l10n.t('Continue');
    case 'editPrompt':
      return l10n.t('Edit prompt');
    case 'summarise':
      return l10n.t('Summarise');
    case 'selectModel':
      return kind === 'configuration' ? l10n.t('Connect a model') : l10n.t('Switch model');
    case 'setKey':
      return l10n.t('Update key');
    case 'settings':
      return l10n.t('Settings');
    case 'showLog':
      return l10n.t('Show log');
    case 'newSession':
      return l10n.t('New session');
    default:
      return remedy satisfies never;
  }
}

/** A failure in a few words; undefined: the server's own message says it best. */
export function headline(kind: FailureKind, wait: string | undefined): string | undefined {
  switch (kind) {
    case 'authentication':
      return l10n.t('Provider rejected the key.');
    case 'rate_limit':
      return wait === undefined ? l10n.t('Rate limited.') : l10n.t('Rate limited. It can be tried again in {0}.', wait);
    case 'network':
      return l10n.t("Can't reach the provider. Your prompt is kept.");
    case 'context':
      return l10n.t('Conversation too long.');
    case 'credit':
      return l10n.t('Provider reports no credit.');
    case 'overloaded':
      return l10n.t('The provider is overloaded.');
    case 'restarted':
      return l10n.t('Pilotfish restarted; the last step may be incomplete.');
    default:
      return undefined;
  }
}
