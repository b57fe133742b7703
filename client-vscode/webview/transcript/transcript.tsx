/** The transcript: a window onto the rows, followed at its end, quiet while someone reads. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Icon } from '../common/controls.tsx';
import { focusCard, leftAt, scroller, wanted } from '../common/focus.ts';
import { promptText } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { draft, markPlace } from '../composer/draft.ts';
import type { Place } from '../messages.ts';
import { RETRY } from '../state/actions.ts';
import { type Pending, questions, type State, type Turn } from '../state/state.ts';
import { dispatch, post, state as store } from '../state/store.ts';
import { atEnd, downward, FIRST_SPAN, grown, MOST, mounted, type Span, upward } from './rows.ts';
import { Follower } from './scrollFollower.ts';
import { type Around, Card, TurnView } from './turn.tsx';

/** How near to a border the next rows are mounted, in pixels. */
const MARGIN = 800;
/** Which prompt was passed is looked up this long after a scroll, in ms: it costs a layout. */
const LOOK_AFTER = 80;

export function Transcript({ state }: { state: State }) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follower = useRef<Follower>(null);
  const [span, setSpan] = useState<Span>(FIRST_SPAN);
  const [away, setAway] = useState(false);
  /** rows that came below while the user read above */
  const [fresh, setFresh] = useState(0);
  const anchor = useRef<Place | null>(null);
  const before = useRef({ total: 0, session: state.session?.id, oldest: state.oldest });
  const [passed, setPassed] = useState<Turn | null>(null);
  const look = useRef<ReturnType<typeof setTimeout>>(undefined);

  const sessionId = state.session?.id;
  const following = !away;
  const window = mounted(state.turns, span);

  useEffect(() => {
    if (!box.current || !content.current) return;
    const one = new Follower(box.current, content.current);
    const following = () => one.following.value;
    follower.current = one;
    const unsubscribe = one.following.subscribe((value) => {
      setAway(!value);
      if (value) setFresh(0);
    });
    scroller.follow = () => {
      setSpan((now) => atEnd(now, most()));
      one.follow();
    };
    scroller.reveal = (selector) => {
      const node = box.current?.querySelector(selector);
      if (node) one.goTo(() => node.scrollIntoView({ block: 'center' }));
    };
    scroller.showWhole = (node) => {
      const { current } = box;
      if (!current) return;
      const toEnd = current.scrollHeight - current.clientHeight - current.scrollTop;
      const hidden = node.getBoundingClientRect().top - current.getBoundingClientRect().top < (following() ? toEnd : 0);
      if (hidden) one.goTo(() => node.scrollIntoView({ block: 'start' }));
    };
    scroller.leave = () => {
      if (box.current && box.current.scrollHeight > box.current.clientHeight) one.leave();
    };
    scroller.place = () => {
      if (one.following.value || !box.current) return undefined;
      const at = topRow(box.current);
      return at ? { row: at.row, top: Math.round(at.top - box.current.getBoundingClientRect().top) } : undefined;
    };
    return () => {
      unsubscribe();
      one.dispose();
    };
  }, []);

  // Rows that came while reading push the span's border, not the reader; another session starts at its end.
  useLayoutEffect(() => {
    const known = before.current;
    before.current = { total: window.total, session: sessionId, oldest: state.oldest };
    if (known.session !== sessionId) {
      setSpan(FIRST_SPAN);
      follower.current?.follow();
    } else if (known.oldest !== state.oldest && window.total > known.total) {
      anchor.current = box.current && topRow(box.current);
      setSpan(upward(span, window.total, most()));
    } else if (window.total > known.total && known.total > 0) {
      setSpan(grown(span, window.total - known.total, following, most()));
      if (!following) setFresh(fresh + window.total - known.total);
    }
  }, [window.total, sessionId]);

  // Where the reader is stays where it is, whatever is mounted above.
  useLayoutEffect(() => {
    const at = anchor.current;
    anchor.current = null;
    if (!at || !box.current) return;
    const row = box.current.querySelector(`[data-row="${CSS.escape(at.row)}"]`);
    if (row) box.current.scrollTop += row.getBoundingClientRect().top - at.top;
  }, [span]);

  // After a reload the reader finds the row that was being read, if it is among the newest.
  useEffect(() => {
    const place = leftAt.value;
    if (!place || !box.current || window.total === 0) return;
    leftAt.value = undefined;
    const row = box.current.querySelector(`[data-row="${CSS.escape(place.row)}"]`);
    if (!row) return;
    follower.current?.leave();
    box.current.scrollTop += row.getBoundingClientRect().top - box.current.getBoundingClientRect().top - place.top;
  }, [leftAt.value, window.total]);

  // Whatever was on its way, its rows or the whole view: the card comes into sight when it is there.
  const asked = wanted.value;
  useEffect(() => {
    if (asked === undefined) return;
    const mine = questions(state).filter((pending) => !pending.answering);
    const id = asked ?? nextOf(mine)?.request.approvalId;
    const card = id && box.current?.querySelector(`[data-approval="${CSS.escape(id)}"]`);
    if (card) {
      wanted.value = undefined;
      follower.current?.goTo(() => card.scrollIntoView({ block: 'center' }));
      focusCard(card);
    } else if (mine.some(({ request }) => request.approvalId === id) && window.total > span.after + span.size) {
      setSpan(upward(span, window.total, most()));
    }
  });

  const onScroll = () => {
    const node = box.current;
    if (!node) return;
    look.current ??= setTimeout(() => {
      look.current = undefined;
      setPassed(passedTurn(node, store.value.turns));
      keepPlace();
    }, LOOK_AFTER);
    if (follower.current?.following.value !== false) return;
    const hiddenAbove = window.total - span.after - span.size > 0;
    if (node.scrollTop < MARGIN && hiddenAbove) {
      anchor.current = topRow(node);
      setSpan(upward(span, window.total, most()));
    } else if (node.scrollTop < MARGIN && state.hasMore && !state.loadingOlder) {
      dispatch({ type: 'olderAsked' });
      post({ type: 'older', before: state.oldest });
    } else if (span.after > 0 && node.scrollHeight - node.clientHeight - node.scrollTop < MARGIN) {
      anchor.current = topRow(node);
      setSpan(downward(span, most()));
    }
  };

  const folder = state.session?.workspaceFolder ?? undefined;
  const around = useMemo<Around>(
    () => ({ folder, questions: questions(state), toggles: state.toggles, allowed: state.allowed }),
    [folder, sessionId, state.approvals, state.toggles, state.allowed],
  );
  const orphans = around.questions.filter((pending) => !hasRow(state.turns, pending));
  const waitingBelow = away && around.questions.some((pending) => !state.seen.includes(pending.request.approvalId));
  return (
    <main class="transcript-frame" aria-label={l10n.t('Session')}>
      <h1 class="only-read">{state.session?.title || l10n.t('Conversation')}</h1>
      {passed && (
        <button
          type="button"
          class="passed"
          onClick={() => scroller.reveal(`[data-turn="${CSS.escape(passed.key)}"] .prompt`)}
          tabIndex={-1}
        >
          <Icon name="arrow-up" />
          <span>{promptText(passed.prompt)}</span>
        </button>
      )}
      <div
        class={following ? 'transcript following' : 'transcript'}
        ref={box}
        role="log"
        aria-live="off"
        aria-label={l10n.t('Conversation')}
        tabIndex={0}
        onScroll={onScroll}
        onKeyDown={onTurnKeys}
      >
        <div class="column" ref={content}>
          {(state.hasMore || window.total > span.after + span.size) && (
            <div class="older meta">{l10n.t('Earlier…')}</div>
          )}
          {window.groups.map((group) => (
            <TurnView
              key={group.turn.key}
              turn={group.turn}
              rows={group.rows}
              around={around}
              last={group.turn === state.turns.at(-1)}
              attempt={attemptOf(state.turns, group.turn)}
            />
          ))}
          {orphans.map((pending) => (
            <Card key={pending.request.approvalId} pending={pending} around={around} />
          ))}
        </div>
      </div>
      {away && (
        <button type="button" class={waitingBelow ? 'pill waiting' : 'pill'} onClick={() => scroller.follow()}>
          <Icon name="arrow-down" />
          {waitingBelow ? l10n.t('Approval waiting') : fresh > 0 ? l10n.t('Latest · {0} new', fresh) : l10n.t('Latest')}
        </button>
      )}
    </main>
  );
}

/** How many rows may be mounted. A screen reader reads what is mounted, so it keeps whatever it has come to. */
function most(): number {
  return document.body.classList.contains('vscode-using-screen-reader') ? Number.POSITIVE_INFINITY : MOST;
}

/** The one after that with the focus, and after the last the first again. */
function nextOf(waiting: readonly Pending[]): Pending | undefined {
  const here = document.activeElement?.closest<HTMLElement>('[data-approval]')?.dataset.approval;
  return waiting[(waiting.findIndex(({ request }) => request.approvalId === here) + 1) % waiting.length];
}

function hasRow(turns: readonly Turn[], { request }: Pending): boolean {
  const turn = turns.findLast((one) => one.id === request.turnId);
  return turn?.entries.some((entry) => entry.id === request.call.id) ?? false;
}

/** With the draft, so that the view opens where it was left. */
function keepPlace(): void {
  const place = scroller.place();
  const { scroll } = draft.value;
  if (place?.row !== scroll?.row || place?.top !== scroll?.top) markPlace(place);
}

function topRow(box: HTMLElement): Place | null {
  const edge = box.getBoundingClientRect().top;
  for (const node of box.querySelectorAll<HTMLElement>('[data-row]')) {
    const { top, bottom } = node.getBoundingClientRect();
    if (bottom > edge) return { row: node.dataset.row ?? '', top };
  }
  return null;
}

/** The turn being read whose prompt is out of sight above. */
function passedTurn(box: HTMLElement, turns: readonly Turn[]): Turn | null {
  const edge = box.getBoundingClientRect().top;
  for (const node of box.querySelectorAll<HTMLElement>('[data-turn]')) {
    const { top, bottom } = node.getBoundingClientRect();
    if (bottom < edge + 40) continue;
    if (top > edge) return null;
    const prompt = node.querySelector('.prompt');
    const gone = prompt ? prompt.getBoundingClientRect().bottom < edge : true;
    return gone ? (turns.find((turn) => turn.key === node.dataset.turn) ?? null) : null;
  }
  return null;
}

/** Alt+Up and Alt+Down go from turn to turn. */
function onTurnKeys(event: KeyboardEvent): void {
  if (!event.altKey || (event.key !== 'ArrowUp' && event.key !== 'ArrowDown')) return;
  const box = event.currentTarget as HTMLElement;
  const edge = box.getBoundingClientRect().top;
  const turns = [...box.querySelectorAll<HTMLElement>('[data-turn]')];
  const target =
    event.key === 'ArrowUp'
      ? turns.findLast((turn) => turn.getBoundingClientRect().top < edge - 4)
      : turns.find((turn) => turn.getBoundingClientRect().top > edge + 4);
  if (!target) return;
  event.preventDefault();
  target.scrollIntoView({ block: 'start' });
}

/** Which attempt at its prompt a turn is, when the next turn is a retry of it. The same words sent again are none. */
function attemptOf(turns: readonly Turn[], turn: Turn): number | undefined {
  let at = turns.indexOf(turn);
  if (!isRetry(turns[at + 1], turn)) return undefined;
  let n = 1;
  for (; isRetry(turns[at], turns[at - 1]); at -= 1) n += 1;
  return n;
}

/** Of the turn before it: a prompt that was refused is retried after others. */
function isRetry(turn: Turn | undefined, before: Turn | undefined): boolean {
  if (!turn?.promptId?.startsWith(RETRY) || !before) return false;
  return promptText(turn.prompt) === promptText(before.prompt);
}
