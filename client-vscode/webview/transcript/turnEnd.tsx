/** The last row of a turn: progress while it runs, then its result, changed files, usage and actions. */

import { useEffect, useState } from 'preact/hooks';
import { Button, Icon, Lines, memo, Path, Toolbar } from '../common/controls.tsx';
import { count, duration, files, money, promptText, sentence, withoutPath } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { continueTurn, retry, retryNow, stop, undo } from '../state/actions.ts';
import type { Call, Turn, TurnEnd } from '../state/state.ts';
import { dispatch, post, state as store } from '../state/store.ts';
import { FailureBox, Remedies } from './notice.tsx';
import { remediesWhileWaiting } from './remedies.ts';

/** After this time without an update, the row offers to stop the turn, in ms. */
const SILENT_MS = 60_000;
/** After this time, a stop shows which call delays it, in ms. */
const SLOW_STOP_MS = 3000;

interface Props {
  turn: Turn;
  folder: string | undefined;
  last: boolean;
}

export const TurnEndRow = memo(({ turn, folder, last }: Props) => {
  if (turn.status === 'sending' || turn.status === 'refused') return null;
  if (turn.status === 'running') return <Working turn={turn} />;
  return (
    <div class="turn-end">
      {turn.end?.error && <FailureBox failure={turn.end.error} turn={turn} last={last} />}
      <StopReason turn={turn} last={last} />
      {turn.files.length > 0 && <Files turn={turn} folder={folder} />}
      <Receipt turn={turn} last={last} />
    </div>
  );
});

/** Reads the whole state: only the running turn renders it. */
function Working({ turn }: { turn: Turn }) {
  const state = store.value;
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const waiting =
    state.approvals.some((pending) => pending.request.turnId === turn.id) ||
    state.asks.some((ask) => ask.sessionId === state.session?.id);
  const running = turn.entries.filter(
    (entry): entry is Call => entry.kind === 'tool_call' && entry.call.status === 'in_progress',
  );
  if (state.stopping !== null) {
    const slow = now - state.stopping > SLOW_STOP_MS;
    const blocking = running.at(-1)?.call.title;
    return (
      <div class="working">
        <Icon name="loading" spin />
        <span>{slow && blocking ? l10n.t('Stopping: {0}', blocking) : l10n.t('Stopping…')}</span>
        {slow && <Button onPress={() => post({ type: 'forceStop' })}>{l10n.t('Force stop')}</Button>}
      </div>
    );
  }
  if (turn.retry && turn.retry.at > now) return <Retrying turn={turn} {...turn.retry} now={now} />;
  const silent = !waiting && running.length === 0 && now - state.lastUpdateAt > SILENT_MS;
  if (silent) {
    const spent = now - state.lastUpdateAt;
    const quiet = spent < 2 * SILENT_MS ? l10n.t('{0}s', Math.floor(spent / 1000)) : duration(spent);
    return (
      <div class="notice warning" role="status">
        <Icon name="warning" />
        <div>
          <span>{l10n.t('No reply for {0}.', quiet)}</span>
          <div class="card-buttons">
            <Button onPress={() => dispatch({ type: 'keepWaiting', at: Date.now() })}>{l10n.t('Keep waiting')}</Button>
            <Button onPress={stop}>{l10n.t('Stop')}</Button>
          </div>
        </div>
      </div>
    );
  }
  const spent = turn.began === undefined ? 0 : now - turn.began;
  return (
    <div class={waiting ? 'working waiting' : 'working'}>
      <Icon name={waiting ? 'question' : 'loading'} spin={!waiting} />
      <span>{waiting ? l10n.t('Waiting for you') : l10n.t('Working')}</span>
      {spent > 3000 && <span class="meta time">{duration(spent)}</span>}
    </div>
  );
}

/** The notice above this row shows the reason. */
function Retrying({ turn, at, cause, now }: { turn: Turn; now: number } & NonNullable<Turn['retry']>) {
  return (
    <div class="working retrying">
      <Icon name="history" />
      <span class="time">{l10n.t('Retrying in {0}', duration(at - now))}</span>
      <Button onPress={() => retryNow(turn.id)}>{l10n.t('Retry now')}</Button>
      {cause && <Remedies all={remediesWhileWaiting(cause)} kind={cause} turnKey={turn.key} />}
    </div>
  );
}

function StopReason({ turn, last }: { turn: Turn; last: boolean }) {
  const showContinue = last && canContinue(turn);
  const text =
    turn.status === 'interrupted'
      ? l10n.t('Interrupted; the last step may be incomplete.')
      : turn.end && endText(turn.end);
  if (!text) return null;
  return (
    <div class="ending">
      <Icon name={turn.end?.stopReason === 'cancelled' || turn.status === 'interrupted' ? 'debug-stop' : 'info'} />
      <span>{text}</span>
      {showContinue && <Continue />}
    </div>
  );
}

/** Hidden after a crash, because the banner has the same button. */
function Continue() {
  return store.value.crashed ? null : <Button onPress={continueTurn}>{l10n.t('Continue')}</Button>;
}

function canContinue(turn: Turn): boolean {
  const reason = turn.end?.stopReason;
  return (
    turn.status === 'interrupted' ||
    reason === 'max_iterations' ||
    reason === 'max_tokens' ||
    reason === 'budget' ||
    reason === 'cancelled'
  );
}

function endText(end: TurnEnd): string | undefined {
  switch (end.stopReason) {
    case 'end_turn':
    case 'failed':
      return undefined;
    case 'max_iterations':
      return l10n.t('Stopped at the step limit.');
    case 'max_tokens':
      return l10n.t('The answer was cut off at the model’s output limit.');
    case 'budget':
      return l10n.t('Stopped at the budget for this turn.');
    case 'refusal':
      return l10n.t('The model declined to answer.');
    case 'cancelled':
      return stopText(end);
    default:
      return end.stopReason satisfies never;
  }
}

/** "Stopped. 2 edits kept, 1 command ended." */
export function stopText(end: TurnEnd): string {
  const receipt = end.receipt;
  const parts: string[] = [];
  const kept = receipt?.changedFiles.length ?? 0;
  const ended = receipt?.killedProcesses.length ?? 0;
  if (kept > 0) parts.push(kept === 1 ? l10n.t('1 edit kept') : l10n.t('{0} edits kept', kept));
  if (ended > 0) parts.push(ended === 1 ? l10n.t('1 command ended') : l10n.t('{0} commands ended', ended));
  return parts.length === 0 ? l10n.t('Stopped.') : l10n.t('Stopped. {0}.', parts.join(', '));
}

function Files({ turn, folder }: { turn: Turn; folder: string | undefined }) {
  const added = turn.files.reduce((sum, file) => sum + file.added, 0);
  const removed = turn.files.reduce((sum, file) => sum + file.removed, 0);
  const undone = turn.undo === 'undone' || turn.undo === 'redoing';
  const left = new Set(turn.conflicts.map((file) => file.uri));
  return (
    <div class="files">
      <div class="files-head">
        <Icon name="diff" />
        <span>{files(turn.files.length)}</span>
        <Lines added={added} removed={removed} />
        <span class="spacer" />
        <Button onPress={() => review(turn)}>{l10n.t('Review')}</Button>
      </div>
      <ul class="files-list">
        {turn.files.map((file) => (
          <li key={file.uri} class={undone && !left.has(file.uri) ? 'undone' : undefined}>
            <button
              type="button"
              class="file"
              onClick={() => post({ type: 'openFile', uri: file.uri })}
              disabled={file.change === 'deleted'}
            >
              <Path uri={file.uri} folder={folder} />
              {file.change !== 'edited' && <span class="meta">{changeLabel(file.change)}</span>}
              <Lines added={file.added} removed={file.removed} />
            </button>
          </li>
        ))}
      </ul>
      {turn.conflicts.length > 0 && <Conflicts turn={turn} folder={folder} />}
    </div>
  );
}

/** Opens the changes of the turn in diff editors; with `only`, just those files. */
function review(turn: Turn, only?: ReadonlySet<string>): void {
  const calls = turn.entries.filter(
    (entry): entry is Call => entry.kind === 'tool_call' && entry.call.diff !== undefined,
  );
  const wanted = turn.files.filter(({ uri }) => only === undefined || only.has(uri));
  const files = wanted.map(({ uri, change }) => ({
    uri,
    change,
    diffs: calls
      .filter(({ call }) => call.locations.some((place) => place.uri === uri))
      .map(({ call }) => call.diff ?? ''),
  }));
  post({ type: 'review', title: promptText(turn.prompt).slice(0, 60), files });
}

function changeLabel(change: 'created' | 'edited' | 'deleted' | 'renamed'): string {
  switch (change) {
    case 'created':
      return l10n.t('new');
    case 'edited':
      return l10n.t('edited');
    case 'deleted':
      return l10n.t('deleted');
    case 'renamed':
      return l10n.t('renamed');
    default:
      return change satisfies never;
  }
}

function Conflicts({ turn, folder }: { turn: Turn; folder: string | undefined }) {
  const canUndoRest = turn.files.length > turn.conflicts.length && turn.undo === 'none';
  return (
    <div class="notice warning" role="status">
      <Icon name="warning" />
      <div>
        <ul class="conflicts">
          {turn.conflicts.map((file) => (
            <li key={file.uri}>
              {file.uri && <Path uri={file.uri} folder={folder} />} {sentence(withoutPath(file.reason, file.uri))}
            </li>
          ))}
        </ul>
        <div class="card-buttons">
          {canUndoRest && <Button onPress={() => undo(turn.id, 'undo', true)}>{l10n.t('Undo the other files')}</Button>}
          {turn.conflicts.some((file) => file.uri !== '') && (
            <Button kind="link" onPress={() => review(turn, new Set(turn.conflicts.map((file) => file.uri)))}>
              {l10n.t('Show diff')}
            </Button>
          )}
        </div>
      </div>
    </div>
  );
}

function Receipt({ turn, last }: { turn: Turn; last: boolean }) {
  const facts = receiptFacts(turn);
  const answer = turn.entries.findLast((entry) => entry.kind === 'message');
  return (
    <div class="receipt">
      <span class="meta facts">{facts.join(' · ')}</span>
      <Toolbar className="receipt-actions" label={l10n.t('Turn actions')}>
        {turn.files.length > 0 && <UndoButton turn={turn} />}
        {turn.prompt.length > 0 && turn.id !== '' && !(last && turn.end?.error) && (
          <Button kind="link" onPress={() => retry(turn)}>
            {l10n.t('Retry')}
          </Button>
        )}
        {turn.id !== '' && (
          <Button kind="link" onPress={() => post({ type: 'fork', turnId: turn.id })}>
            {l10n.t('Fork')}
          </Button>
        )}
        {answer && (
          <Button
            kind="link"
            onPress={() => post({ type: 'copy', text: answer.kind === 'message' ? answer.text : '' })}
          >
            {l10n.t('Copy')}
          </Button>
        )}
      </Toolbar>
    </div>
  );
}

function UndoButton({ turn }: { turn: Turn }) {
  switch (turn.undo) {
    case 'none':
      return (
        <Button kind="link" onPress={() => undo(turn.id, 'undo')}>
          {l10n.t('Undo turn')}
        </Button>
      );
    case 'undone':
      return (
        <>
          <span class="undone-line">
            {l10n.t('Turn undone, {0}.', files(turn.files.length - turn.conflicts.length))}
          </span>
          <Button kind="link" onPress={() => undo(turn.id, 'redo')}>
            {l10n.t('Redo')}
          </Button>
        </>
      );
    case 'undoing':
      return <span class="meta">{l10n.t('Undoing…')}</span>;
    case 'redoing':
      return <span class="meta">{l10n.t('Redoing…')}</span>;
    default:
      return turn.undo satisfies never;
  }
}

/** "4m · 18k tokens · $0.21 · 2 asked, 14 by rule" */
export function receiptFacts(turn: Turn): readonly string[] {
  const facts: string[] = [];
  if (turn.began !== undefined && turn.ended !== undefined) facts.push(duration(turn.ended - turn.began));
  const usage = turn.end?.usage;
  const tokens = usage ? usage.inputTokens + usage.outputTokens : 0;
  if (tokens > 0) facts.push(l10n.t('{0} tokens', count(tokens)));
  if (usage?.cost !== undefined && usage.cost > 0) facts.push(money(usage.cost));
  if (usage !== undefined && usage.unpricedRequests > 0) facts.push(l10n.t('price unknown'));
  const calls = turn.entries.filter((entry): entry is Call => entry.kind === 'tool_call');
  const asked = calls.filter((entry) => entry.call.approval?.by === 'user').length;
  const ruled = calls.filter(({ call }) => call.approval?.by === 'rule' && call.approval.decision === 'allow').length;
  const permissions = [asked > 0 && l10n.t('{0} asked', asked), ruled > 0 && l10n.t('{0} by rule', ruled)].filter(
    Boolean,
  );
  if (permissions.length > 0) facts.push(permissions.join(', '));
  return facts;
}
