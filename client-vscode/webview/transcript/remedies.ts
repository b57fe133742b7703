/** Which buttons help against each kind of failure, and their labels. */

import type { FailureKind } from '../../src/protocol.gen.ts';
import { l10n } from '../common/l10n.ts';
import type { ViewCommand } from '../messages.ts';

export type Remedy = 'retry' | 'continue' | 'editPrompt' | 'summarise' | HostRemedy;
/** Run by the extension host. */
type HostRemedy = Extract<ViewCommand, 'selectModel' | 'setKey' | 'settings' | 'showLog' | 'newSession'>;

/** For a failed turn; the most likely remedy first. */
export function failureRemedies(kind: FailureKind): readonly Remedy[] {
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
    case 'closed':
      return ['continue', 'retry'];
    case 'restarted':
      return ['continue', 'retry', 'showLog'];
    case 'storage':
    case 'internal':
      return ['retry', 'showLog'];
    default:
      return kind satisfies never;
  }
}

/** While the server waits before the next request. "Retry now" has its own button. */
export function remediesWhileWaiting(kind: FailureKind | undefined): readonly Remedy[] {
  return kind === undefined ? [] : failureRemedies(kind).filter((one) => one === 'selectModel' || one === 'settings');
}

/** For a notice of a turn that continues. */
export function noticeRemedies(kind: FailureKind | undefined): readonly Remedy[] {
  switch (kind) {
    case 'storage':
      return ['showLog'];
    case 'bad_request':
      return ['editPrompt', 'selectModel'];
    default:
      return [];
  }
}

export function remedyLabel(remedy: Remedy, kind: FailureKind): string {
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
      return l10n.t('Update API key');
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

/** A short description of a failure, or undefined if the server's message should be shown. */
export function headline(kind: FailureKind, wait: string | undefined): string | undefined {
  switch (kind) {
    case 'authentication':
      return l10n.t('The provider rejected the API key.');
    case 'rate_limit':
      return wait === undefined ? l10n.t('Rate limited.') : l10n.t('Rate limited. Try again in {0}.', wait);
    case 'network':
      return l10n.t('Cannot reach the provider. Your prompt is saved.');
    case 'context':
      return l10n.t('The conversation is too long for the model.');
    case 'credit':
      return l10n.t('The provider reports that your account has no credit.');
    case 'overloaded':
      return l10n.t('The provider is overloaded.');
    case 'closed':
      return l10n.t('Interrupted by a window reload; the last step may be incomplete.');
    case 'restarted':
      return l10n.t('Pilotfish restarted; the last step may be incomplete.');
    default:
      return undefined;
  }
}
