/** Something the user should know, with the remedies as buttons where there are some. */

import type { Failure, FailureKind } from '../../src/protocol.gen.ts';
import { Button, Icon, memo } from '../common/controls.tsx';
import { duration } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { carryOn, resend, summarise, toggle } from '../state/actions.ts';
import type { Turn } from '../state/state.ts';
import { post } from '../state/store.ts';
import { headline, type Remedy, remediesOf, remediesOfNotice, remedyWords } from './remedies.ts';

interface NoticeProps {
  level: 'info' | 'warning' | 'error';
  message: string;
  remedy: string | undefined;
  cause: FailureKind | undefined;
  turnKey: string;
  /** the newest turn: what helps can still be done */
  last: boolean;
}

export const NoticeRow = memo(({ level, message, remedy, cause, turnKey, last }: NoticeProps) => (
  <div class={`notice ${level}`} role="note">
    <Icon name={level === 'info' ? 'info' : level} />
    <div>
      <span>{message}</span>
      {remedy && <span class="remedy">{remedy}</span>}
      {last && cause && <Remedies all={remediesOfNotice(cause)} kind={cause} turnKey={turnKey} />}
    </div>
  </div>
));

/** Why a turn failed in a few words, what the user can do as buttons, and the provider's own words on demand. */
export function FailureBox({ failure, turn, last }: { failure: Failure; turn: Turn; last: boolean }) {
  const wait = failure.retryAfter === undefined ? undefined : duration(failure.retryAfter * 1000);
  const known = headline(failure.kind, wait);
  return (
    // No alert: it would be read out again whenever the turn comes into view. What is new, the announcer says.
    <div class="notice error boxed" role="note">
      <Icon name="error" />
      <div>
        <span>{known ?? failure.message}</span>
        {known === undefined && <span class="remedy">{failure.remedy}</span>}
        {last && (
          <Remedies all={remediesOf(failure.kind)} kind={failure.kind} turnKey={turn.key} prompt={turn.prompt} />
        )}
        {known !== undefined && known !== failure.message && (
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
  /** what to retry */
  prompt?: Turn['prompt'];
}

/** The first of a failed turn is what one would press. */
export function Remedies({ all, kind, turnKey, prompt }: RemediesProps) {
  if (all.length === 0) return null;
  return (
    <div class="card-buttons">
      {all.map((one, index) => (
        <Button
          key={one}
          kind={prompt && index === 0 ? 'primary' : 'secondary'}
          onPress={() => help(one, turnKey, prompt)}
        >
          {remedyWords(one, kind)}
        </Button>
      ))}
    </div>
  );
}

function help(remedy: Remedy, turnKey: string, prompt: Turn['prompt'] | undefined): void {
  switch (remedy) {
    case 'retry':
      if (prompt) resend(prompt);
      return;
    case 'continue':
      carryOn();
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
