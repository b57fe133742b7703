/** The area above the composer: approvals whose card is not visible, the agent's questions, the plan and the queue. */

import { useRef } from 'preact/hooks';
import { isComposing } from '../approvals/approvalCard.tsx';
import { Button, Icon, IconButton } from '../common/controls.tsx';
import { composerFocus, focusNextCard, requestedCard } from '../common/focus.ts';
import { promptText, questionTitle } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import type { Ask } from '../messages.ts';
import { answer, editQueued, steer, toggle, withdraw } from '../state/actions.ts';
import { isBusy, type PendingApproval, type State, sessionApprovals, type Turn } from '../state/state.ts';
import { post } from '../state/store.ts';

const KINDS = ['diff', 'command'] as const;

export function Dock({ state }: { state: State }) {
  const own = sessionApprovals(state);
  const others = state.approvals.filter((pending) => pending.request.sessionId !== state.session?.id).length;
  const asks = state.asks.filter((ask) => ask.sessionId === state.session?.id);
  const planned = planTurn(state);
  const groups = KINDS.map((kind) => ({
    kind,
    waiting: own.filter((pending) => pending.request.preview.kind === kind && !pending.answering),
  })).filter(({ waiting }) => waiting.length > 1);
  const grouped = new Set(groups.flatMap(({ waiting }) => waiting));
  const unanswered = own.filter((pending) => !pending.answering);
  const hidden = unanswered.filter((pending) => positionOf(state, pending) !== 'visible' && !grouped.has(pending));
  const isEmpty =
    hidden.length === 0 &&
    others === 0 &&
    asks.length === 0 &&
    !planned &&
    state.queue.length === 0 &&
    groups.length === 0;
  if (isEmpty) return null;
  return (
    <section class="dock" aria-label={l10n.t('Approvals, plan and queue')}>
      {hidden.map((pending) => (
        <HiddenApproval
          key={pending.request.approvalId}
          pending={pending}
          position={positionOf(state, pending)}
          place={unanswered.indexOf(pending) + 1}
          of={unanswered.length}
        />
      ))}
      {asks.map((ask) => (
        <AskBox key={ask.id} ask={ask} />
      ))}
      {groups.map(({ kind, waiting }) => (
        <Group key={kind} kind={kind} waiting={waiting} state={state} open={state.toggles[`dock/${kind}`] ?? true} />
      ))}
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
      {planned && <Plan turn={planned} open={state.toggles['dock/plan'] ?? false} />}
      {state.queue.length > 0 && <Queue state={state} />}
    </section>
  );
}

/** The newest turn if it has a plan that is not finished, or if it is still running. */
function planTurn(state: State): Turn | undefined {
  const last = state.turns.at(-1);
  if (!last || last.plan.length === 0) return undefined;
  const done = last.plan.every((entry) => entry.status === 'completed');
  return last.status === 'running' || !done ? last : undefined;
}

type CardPosition = 'visible' | 'above' | 'below';

function positionOf(state: State, { request }: PendingApproval): CardPosition {
  if (state.visibleCards.includes(request.approvalId)) return 'visible';
  return state.cardsAbove.includes(request.approvalId) ? 'above' : 'below';
}

function dockOf({ currentTarget }: Event): Element | null {
  return currentTarget instanceof Element ? currentTarget.closest('.dock') : null;
}

/** An arrow that points to the card. */
function Direction({ position }: { position: CardPosition }) {
  const label = position === 'above' ? l10n.t('Above') : position === 'below' ? l10n.t('Below') : l10n.t('Visible');
  return (
    <span class="direction" title={label}>
      <Icon name={position === 'above' ? 'arrow-up' : position === 'below' ? 'arrow-down' : 'question'} />
      <span class="only-read">{label}: </span>
    </span>
  );
}

interface HiddenProps {
  pending: PendingApproval;
  position: CardPosition;
  place: number;
  of: number;
}

function HiddenApproval({ pending, position, place, of }: HiddenProps) {
  const { approvalId, call } = pending.request;
  return (
    <div class="dock-line approval-line">
      <Direction position={position} />
      <span class="dock-title">{questionTitle(call)}</span>
      {of > 1 && <span class="meta">{l10n.t('{0} of {1}', place, of)}</span>}
      <Button
        kind="primary"
        onPress={() => {
          requestedCard.value = approvalId;
        }}
      >
        {l10n.t('Show')}
      </Button>
    </div>
  );
}

type Kind = (typeof KINDS)[number];

interface GroupProps {
  kind: Kind;
  waiting: readonly PendingApproval[];
  state: State;
  open: boolean;
}

/** The approvals of one kind, edits or commands, which can be allowed together. */
function Group({ kind, waiting, state, open }: GroupProps) {
  const n = waiting.length;
  const allowLabel = kind === 'diff' ? l10n.t('Allow {0} edits', n) : l10n.t('Allow {0} commands', n);
  return (
    <div class="dock-group">
      <div class="dock-line">
        <button type="button" class="row-head" aria-expanded={open} onClick={() => toggle(`dock/${kind}`, !open)}>
          <Icon name={open ? 'chevron-down' : 'chevron-right'} />
          <span class="dock-title">{l10n.t('{0} waiting', n)}</span>
        </button>
        <Button
          disabled={!open}
          {...(!open && { title: l10n.t('Expand the list first to see what this allows.') })}
          onPress={(event) => {
            focusNextCard(dockOf(event));
            for (const { request } of waiting) answer(request.approvalId, 'allow_once');
          }}
        >
          {allowLabel}
        </Button>
      </div>
      {open && (
        <ul class="dock-list">
          {waiting.map((pending) => {
            const { request } = pending;
            return (
              <li key={request.approvalId}>
                <Direction position={positionOf(state, pending)} />
                <button
                  type="button"
                  class="dock-title dock-show"
                  title={l10n.t('Show card: {0}', questionTitle(request.call))}
                  onClick={() => {
                    requestedCard.value = request.approvalId;
                  }}
                >
                  {questionTitle(request.call)}
                </button>
                {kind === 'diff' && (
                  <Button
                    kind="link"
                    onPress={() => post({ type: 'openDiff', approvalId: request.approvalId, file: 0 })}
                  >
                    {l10n.t('Diff')}
                  </Button>
                )}
                <Button
                  kind="link"
                  onPress={(event) => {
                    focusNextCard(dockOf(event));
                    answer(request.approvalId, 'reject');
                  }}
                >
                  {l10n.t('Deny')}
                </Button>
              </li>
            );
          })}
        </ul>
      )}
    </div>
  );
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
  const current =
    turn.plan.find((entry) => entry.status === 'in_progress') ?? turn.plan.find((entry) => entry.status === 'pending');
  return (
    <div class="dock-group plan">
      <div class="dock-line">
        <button type="button" class="row-head" aria-expanded={open} onClick={() => toggle('dock/plan', !open)}>
          <Icon name="checklist" />
          <span class="dock-title">
            {l10n.t('Plan {0}/{1}', done, turn.plan.length)}
            {current && <span class="meta"> {current.content}</span>}
          </span>
          <Icon name={open ? 'chevron-down' : 'chevron-right'} />
        </button>
      </div>
      {open && (
        <ol class="plan-list">
          {turn.plan.map((entry, index) => (
            <li key={index} class={entry.status}>
              <Icon name={PLAN_ICONS[entry.status]} />
              <span>{entry.content}</span>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
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
  );
}
