/** Notices and failures of a turn, with buttons for the remedies. */

import type { Failure, FailureKind } from '../../src/protocol.gen.ts';
import { Button, Icon, memo } from '../common/controls.tsx';
import { duration } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { continueTurn, resend, summarise, toggle } from '../state/actions.ts';
import type { Turn } from '../state/state.ts';
import { post } from '../state/store.ts';
import { failureRemedies, headline, noticeRemedies, type Remedy, remedyLabel } from './remedies.ts';

interface NoticeProps {
  level: 'info' | 'warning' | 'error';
  message: string;
  remedy: string | undefined;
  cause: FailureKind | undefined;
  turnKey: string;
  /** whether this is the newest turn, which is the only one with buttons */
  last: boolean;
}

export const NoticeRow = memo(({ level, message, remedy, cause, turnKey, last }: NoticeProps) => (
  <div class={`notice ${level}`} role="note">
    <Icon name={level === 'info' ? 'info' : level} />
    <div>
      <span>{message}</span>
      {remedy && <span class="remedy">{remedy}</span>}
      {last && cause && <Remedies all={noticeRemedies(cause)} kind={cause} turnKey={turnKey} />}
    </div>
  </div>
));

interface ClaimProps {
  text: string;
  verdict: 'supported' | 'unsupported';
  evidence: string | undefined;
}

/** A statement of the answer, with the call that shows it or what is missing. */
export const ClaimRow = memo(({ text, verdict, evidence }: ClaimProps) => {
  const verified = verdict === 'supported';
  return (
    <div class={`notice claim ${verified ? 'info' : 'warning'}`} role="note">
      <Icon name={verified ? 'check' : 'warning'} />
      <div>
        <span>{verified ? l10n.t('Verified: {0}', text) : l10n.t('Not verified: {0}', text)}</span>
        {evidence && <span class="remedy">{evidence}</span>}
      </div>
    </div>
  );
});

/** Shows why a turn failed, the remedies as buttons, and the full message on demand. */
export function FailureBox({ failure, turn, last }: { failure: Failure; turn: Turn; last: boolean }) {
  const wait = failure.retryAfter === undefined ? undefined : duration(failure.retryAfter * 1000);
  const short = headline(failure.kind, wait);
  const level = failure.kind === 'closed' ? 'info' : 'error'; // nothing went wrong
  return (
    // Not an alert: a screen reader would read it again whenever the turn is rendered. The announcer reads new failures.
    <div class={`notice ${level} boxed`} role="note">
      <Icon name={level} />
      <div>
        <span>{short ?? failure.message}</span>
        {short === undefined && <span class="remedy">{failure.remedy}</span>}
        {last && (
          <Remedies all={failureRemedies(failure.kind)} kind={failure.kind} turnKey={turn.key} prompt={turn.prompt} />
        )}
        {short !== undefined && short !== failure.message && (
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

interface RemediesProps {
  all: readonly Remedy[];
  kind: FailureKind;
  turnKey: string;
  /** the prompt that "Retry" sends again */
  prompt?: Turn['prompt'];
}

/** The first remedy of a failed turn is the primary button. */
export function Remedies({ all, kind, turnKey, prompt }: RemediesProps) {
  if (all.length === 0) return null;
  return (
    <div class="card-buttons">
      {all.map((one, index) => (
        <Button
          key={one}
          kind={prompt && index === 0 ? 'primary' : 'secondary'}
          onPress={() => apply(one, turnKey, prompt)}
        >
          {remedyLabel(one, kind)}
        </Button>
      ))}
    </div>
  );
}

function apply(remedy: Remedy, turnKey: string, prompt: Turn['prompt'] | undefined): void {
  switch (remedy) {
    case 'retry':
      if (prompt) resend(prompt);
      return;
    case 'continue':
      continueTurn();
      return;
    case 'editPrompt':
      toggle(`${turnKey}/edit`, true);
      return;
    case 'summarise':
      summarise();
      return;
    default:
      post({ type: 'command', command: remedy });
  }
}
