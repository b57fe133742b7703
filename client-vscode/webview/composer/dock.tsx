/** The area above the composer: the plan, the queue, the agent's questions and the pending approvals. */

import { useRef } from 'preact/hooks';
import { isComposing } from '../approvals/approvalCard.tsx';
import { PendingApprovals } from '../approvals/pendingApprovals.tsx';
import { Button, Icon, IconButton } from '../common/controls.tsx';
import { composerFocus } from '../common/focus.ts';
import { escaped, files, promptText, relative } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import type { Ask, Restored } from '../messages.ts';
import { clearQueue, editQueued, resumeQueue, steer, toggle, withdraw } from '../state/actions.ts';
import { currentMode, isBusy, type State, sessionApprovals, type Turn } from '../state/state.ts';
import { dispatch, post } from '../state/store.ts';
import { addToDraft } from './draft.ts';

export function Dock({ state }: { state: State }) {
  const shown = state.session?.id ?? state.opening;
  const own = sessionApprovals(state);
  const others = state.approvals.filter((pending) => pending.request.sessionId !== shown).length;
  const asks = state.asks.filter((ask) => ask.sessionId === state.session?.id);
  const planned = planTurn(state);
  const isEmpty =
    own.length === 0 &&
    others === 0 &&
    asks.length === 0 &&
    !planned &&
    state.queue.length === 0 &&
    !state.restored &&
    !canBuild(state);
  return (
    <section class={isEmpty ? 'dock empty' : 'dock'} aria-label={l10n.t('Approvals, plan and queue')}>
      {others > 0 && (
        <div class="dock-line">
          <Icon name="question" />
          <span class="dock-title">
            {others === 1
              ? l10n.t('1 approval waiting in another session')
              : l10n.t('{0} approvals waiting in other sessions', others)}
          </span>
          <Button onPress={() => post({ type: 'command', command: 'otherWaiting' })}>{l10n.t('Show')}</Button>
        </div>
      )}
      {state.restored && (
        <RestoredNotice restored={state.restored} folder={state.session?.workspaceFolder ?? undefined} />
      )}
      {canBuild(state) && (
        <div class="dock-line">
          <Icon name="checklist" />
          <span class="dock-title">{l10n.t('Plan mode: nothing was changed.')}</span>
          <Button kind="primary" onPress={() => post({ type: 'build' })}>
            {l10n.t('Build')}
          </Button>
        </div>
      )}
      {planned && <Plan turn={planned} open={state.toggles['dock/plan'] ?? false} />}
      {state.queue.length > 0 && <Queue state={state} />}
      {asks.map((ask) => (
        <AskBox key={ask.id} ask={ask} />
      ))}
      <PendingApprovals state={state} />
    </section>
  );
}

/** Plan mode has answered: the plan can be carried out in another mode. */
function canBuild(state: State): boolean {
  return currentMode(state) === 'plan' && state.turns.at(-1)?.end?.stopReason === 'end_turn';
}

/** What going back did, what it could not undo, and the way forward again. */
function RestoredNotice({ restored, folder }: { restored: Restored; folder: string | undefined }) {
  const { from, turns, files: count, refused, commands } = restored;
  return (
    <div class="notice info restored" role="status">
      <Icon name="discard" />
      <div>
        <span>{l10n.t('Restored: {0} and the conversation.', files(count))}</span>
        {refused.length > 0 && (
          <span class="remedy">
            {l10n.t('Not restored: {0}', refused.map(({ uri }) => relative(uri, folder)).join(', '))}
          </span>
        )}
        {commands.length > 0 && (
          <span class="remedy">{l10n.t('Effects of these commands stay: {0}', commands.map(escaped).join(' · '))}</span>
        )}
        <div class="card-buttons">
          <Button onPress={() => post({ type: 'redoRestored', sessionId: from, turnIds: turns })}>
            {l10n.t('Redo')}
          </Button>
          <Button kind="link" onPress={() => dispatch({ type: 'dismissRestored' })}>
            {l10n.t('Dismiss')}
          </Button>
        </div>
      </div>
    </div>
  );
}

/** The newest turn if it has a plan that is not finished, or if it is still running. */
function planTurn(state: State): Turn | undefined {
  const last = state.turns.at(-1);
  if (!last || last.plan.length === 0) return undefined;
  const done = last.plan.every((entry) => entry.status === 'completed');
  return last.status === 'running' || !done ? last : undefined;
}

function AskBox({ ask }: { ask: Ask }) {
  const box = useRef<HTMLInputElement>(null);
  const reply = (text: string | null) => {
    post({ type: 'answerAsk', id: ask.id, answer: text });
    composerFocus.value += 1;
  };
  return (
    <section class="card ask" aria-label={l10n.t('Question: {0}', ask.question)}>
      <header class="card-head">
        <Icon name="question" />
        <h3 class="card-title">{ask.question}</h3>
        <IconButton icon="close" label={l10n.t('Dismiss')} onPress={() => reply(null)} />
      </header>
      {ask.options.length > 0 && (
        <div class="card-buttons">
          {ask.options.map((option) => (
            <Button key={option} onPress={() => reply(option)}>
              {option}
            </Button>
          ))}
        </div>
      )}
      <div class="ask-line">
        <input
          ref={box}
          aria-label={l10n.t('Your answer')}
          placeholder={l10n.t('Your answer')}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || isComposing(event) || !box.current?.value.trim()) return;
            event.preventDefault();
            reply(box.current.value.trim());
          }}
        />
        <Button onPress={() => box.current?.value.trim() && reply(box.current.value.trim())}>{l10n.t('Reply')}</Button>
      </div>
    </section>
  );
}

const PLAN_ICONS = { completed: 'check', in_progress: 'arrow-right', pending: 'circle' } as const;

function Plan({ turn, open }: { turn: Turn; open: boolean }) {
  const done = turn.plan.filter((entry) => entry.status === 'completed').length;
  const ended = turn.status !== 'running';
  const current =
    turn.plan.find((entry) => entry.status === 'in_progress') ?? turn.plan.find((entry) => entry.status === 'pending');
  return (
    <div class="dock-group plan">
      <div class="dock-line">
        <button type="button" class="row-head" aria-expanded={open} onClick={() => toggle('dock/plan', !open)}>
          <Icon name="checklist" />
          <span class="dock-title">
            {l10n.t('Plan {0}/{1}', done, turn.plan.length)}
            {ended && <span class="meta"> {l10n.t('{0} left', turn.plan.length - done)}</span>}
            {current && !ended && <span class="meta"> {current.content}</span>}
          </span>
          <Icon name={open ? 'chevron-down' : 'chevron-right'} />
        </button>
        <IconButton icon="edit" label={l10n.t('Edit plan')} onPress={() => editPlan(turn)} />
      </div>
      {open && (
        <ol class="plan-list">
          {turn.plan.map((entry, index) => (
            <li key={index} class={entry.status}>
              <Icon name={ended && entry.status === 'in_progress' ? 'debug-stop' : PLAN_ICONS[entry.status]} />
              <span>{entry.content}</span>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

/** Puts the plan into the composer, where the user changes it and sends it. */
function editPlan(turn: Turn): void {
  const steps = turn.plan.map(({ status, content }) => `- [${status === 'completed' ? 'x' : ' '}] ${content}`);
  addToDraft([l10n.t('Change the plan to:'), ...steps].join('\n'), []);
  composerFocus.value += 1;
}

function Queue({ state }: { state: State }) {
  const running = isBusy(state);
  const move = (index: number, by: number) => {
    const ids = state.queue.map((prompt) => prompt.promptId);
    const [id] = ids.splice(index, 1);
    if (id === undefined || index + by < 0 || index + by > ids.length) return;
    ids.splice(index + by, 0, id);
    post({ type: 'reorder', promptIds: ids });
  };
  return (
    <div class="dock-group">
      {!running && (
        <div class="dock-line">
          <Icon name="history" />
          <span class="dock-title">{l10n.t('Queue paused')}</span>
          <Button onPress={resumeQueue}>{l10n.t('Send now')}</Button>
          <Button kind="link" onPress={clearQueue}>
            {l10n.t('Clear')}
          </Button>
        </div>
      )}
      <ul class="dock-list queue" aria-label={l10n.t('Queued prompts')}>
        {state.queue.map((queued, index) => {
          const text = promptText(queued.prompt);
          return (
            <li
              key={queued.promptId}
              tabIndex={0}
              aria-label={text}
              onKeyDown={(event) => {
                if (!event.altKey || (event.key !== 'ArrowUp' && event.key !== 'ArrowDown')) return;
                event.preventDefault();
                move(index, event.key === 'ArrowUp' ? -1 : 1);
              }}
            >
              <Icon name={queued.kind === 'steer' ? 'reply' : 'history'} />
              <span class="dock-title" title={text}>
                {text}
              </span>
              <span class="meta">
                {queued.kind === 'steer' ? l10n.t('Delivered at the next step') : l10n.t('Queued')}
              </span>
              <span class="queue-actions">
                {queued.kind === 'queue' && running && (
                  <IconButton
                    icon="reply"
                    label={l10n.t('Steer: deliver at the next step')}
                    onPress={() => steer(queued.promptId)}
                  />
                )}
                <IconButton icon="edit" label={l10n.t('Edit')} onPress={() => editQueued(queued)} />
                <IconButton icon="trash" label={l10n.t('Delete')} onPress={() => withdraw(queued.promptId)} />
              </span>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
