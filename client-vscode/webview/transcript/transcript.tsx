/** The transcript: mounts a window of the rows, follows the end, and keeps the position while the user reads. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Icon } from '../common/controls.tsx';
import { savedPosition, scroller } from '../common/focus.ts';
import { promptText } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { draft, saveScrollPosition } from '../composer/draft.ts';
import type { ScrollPosition } from '../messages.ts';
import { RETRY_PREFIX } from '../state/actions.ts';
import type { State, Turn } from '../state/state.ts';
import { dispatch, post, state as store } from '../state/store.ts';
import { FindBox, findOpen } from './find.tsx';
import {
  afterGrowth,
  extendDown,
  extendUp,
  INITIAL_SPAN,
  MAX_ROWS,
  mountedRows,
  moveToEnd,
  type Span,
} from './rows.ts';
import { ScrollFollower } from './scrollFollower.ts';
import { type RowContext, TurnView } from './turn.tsx';

/** Distance from the first or last mounted row at which more rows are mounted, in pixels. */
const MARGIN = 800;
/** How long after a scroll event the position is evaluated, in ms. The evaluation forces a layout. */
const SCROLL_DELAY_MS = 80;
const ALL_ROWS: Span = { after: 0, size: Number.POSITIVE_INFINITY };

export function Transcript({ state }: { state: State }) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follower = useRef<ScrollFollower>(null);
  const [span, setSpan] = useState<Span>(INITIAL_SPAN);
  const [away, setAway] = useState(false);
  /** the number of rows that were added while the user was reading above */
  const [newRows, setNewRows] = useState(0);
  const anchor = useRef<ScrollPosition | null>(null);
  const before = useRef({ total: 0, session: state.session?.id, oldest: state.oldest });
  const [pinnedTurn, setPinnedTurn] = useState<Turn | null>(null);
  const scrollTimer = useRef<ReturnType<typeof setTimeout>>(undefined);

  const sessionId = state.session?.id;
  const following = !away;
  const finding = findOpen.value;
  const window = mountedRows(state.turns, finding ? ALL_ROWS : span);

  useEffect(() => {
    if (!box.current || !content.current) return;
    const one = new ScrollFollower(box.current, content.current);
    follower.current = one;
    const unsubscribe = one.following.subscribe((value) => {
      setAway(!value);
      if (value) setNewRows(0);
    });
    scroller.follow = () => {
      setSpan((now) => moveToEnd(now, maxRows()));
      one.follow();
    };
    scroller.reveal = (selector) => {
      const node = box.current?.querySelector(selector);
      if (node) one.goTo(() => node.scrollIntoView({ block: 'center' }));
    };
    scroller.leave = () => {
      if (box.current && box.current.scrollHeight > box.current.clientHeight) one.leave();
    };
    scroller.position = () => {
      if (one.following.value || !box.current) return undefined;
      const at = topRow(box.current);
      return at ? { row: at.row, top: Math.round(at.top - box.current.getBoundingClientRect().top) } : undefined;
    };
    return () => {
      unsubscribe();
      one.dispose();
    };
  }, []);

  // New rows extend the span without moving the text that the user reads. Another session starts at its end.
  useLayoutEffect(() => {
    const previous = before.current;
    before.current = { total: window.total, session: sessionId, oldest: state.oldest };
    if (previous.session !== sessionId) {
      setSpan(INITIAL_SPAN);
      follower.current?.follow();
    } else if (previous.oldest !== state.oldest && window.total > previous.total) {
      anchor.current = box.current && topRow(box.current);
      setSpan(extendUp(span, window.total, maxRows()));
    } else if (window.total > previous.total && previous.total > 0) {
      setSpan(afterGrowth(span, window.total - previous.total, following, maxRows()));
      if (!following) setNewRows(newRows + window.total - previous.total);
    }
  }, [window.total, sessionId]);

  // Keep the visible text in place when rows are mounted above it.
  useLayoutEffect(() => {
    const at = anchor.current;
    anchor.current = null;
    if (!at || !box.current) return;
    const row = box.current.querySelector(`[data-row="${CSS.escape(at.row)}"]`);
    if (row) box.current.scrollTop += row.getBoundingClientRect().top - at.top;
  }, [span]);

  // After a reload, scroll to the row that the user was reading, if it is loaded.
  useEffect(() => {
    const position = savedPosition.value;
    if (!position || !box.current || window.total === 0) return;
    savedPosition.value = undefined;
    const row = box.current.querySelector(`[data-row="${CSS.escape(position.row)}"]`);
    if (!row) return;
    follower.current?.leave();
    box.current.scrollTop += row.getBoundingClientRect().top - box.current.getBoundingClientRect().top - position.top;
  }, [savedPosition.value, window.total]);

  // The whole conversation is searched. Afterwards its rows stay until the user goes to the end.
  useEffect(() => {
    if (finding && state.hasMore && !state.loadingOlder) loadOlder(state);
    if (finding) setSpan({ after: 0, size: window.total });
  }, [finding, state.hasMore, state.loadingOlder, window.total]);

  const onScroll = () => {
    const node = box.current;
    if (!node) return;
    scrollTimer.current ??= setTimeout(() => {
      scrollTimer.current = undefined;
      setPinnedTurn(turnAbove(node, store.value.turns));
      saveScroll();
    }, SCROLL_DELAY_MS);
    if (follower.current?.following.value !== false) return;
    const hiddenAbove = window.total - span.after - span.size > 0;
    if (node.scrollTop < MARGIN && hiddenAbove) {
      anchor.current = topRow(node);
      setSpan(extendUp(span, window.total, maxRows()));
    } else if (node.scrollTop < MARGIN && state.hasMore && !state.loadingOlder) {
      loadOlder(state);
    } else if (span.after > 0 && node.scrollHeight - node.clientHeight - node.scrollTop < MARGIN) {
      anchor.current = topRow(node);
      setSpan(extendDown(span, maxRows()));
    }
  };

  const folder = state.session?.workspaceFolder ?? undefined;
  const context = useMemo<RowContext>(() => ({ folder, toggles: state.toggles }), [folder, state.toggles]);
  return (
    <main class="transcript-frame" aria-label={l10n.t('Session')}>
      <h1 class="only-read">{state.session?.title || l10n.t('Conversation')}</h1>
      {finding && <FindBox />}
      {pinnedTurn && !finding && (
        <button
          type="button"
          class="passed"
          onClick={() => scroller.reveal(`[data-turn="${CSS.escape(pinnedTurn.key)}"] .prompt`)}
          tabIndex={-1}
        >
          <Icon name="arrow-up" />
          <span>{promptText(pinnedTurn.prompt)}</span>
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
              context={context}
              last={group.turn === state.turns.at(-1)}
              attempt={attemptOf(state.turns, group.turn)}
            />
          ))}
        </div>
      </div>
      {away && (
        <button type="button" class="pill" onClick={() => scroller.follow()}>
          <Icon name="arrow-down" />
          {newRows > 0 ? l10n.t('Latest · {0} new', newRows) : l10n.t('Latest')}
        </button>
      )}
    </main>
  );
}

function loadOlder({ oldest }: State): void {
  dispatch({ type: 'olderRequested' });
  post({ type: 'older', before: oldest });
}

/** The maximum number of mounted rows. A screen reader can read only mounted rows, so there is no limit for it. */
function maxRows(): number {
  return document.body.classList.contains('vscode-using-screen-reader') ? Number.POSITIVE_INFINITY : MAX_ROWS;
}

/** Saves the scroll position with the draft, to restore it after a reload. */
function saveScroll(): void {
  const position = scroller.position();
  const { scroll } = draft.value;
  if (position?.row !== scroll?.row || position?.top !== scroll?.top) saveScrollPosition(position);
}

function topRow(box: HTMLElement): ScrollPosition | null {
  const edge = box.getBoundingClientRect().top;
  for (const node of box.querySelectorAll<HTMLElement>('[data-row]')) {
    const { top, bottom } = node.getBoundingClientRect();
    if (bottom > edge) return { row: node.dataset.row ?? '', top };
  }
  return null;
}

/** The visible turn whose prompt is scrolled out of view, or null. */
function turnAbove(box: HTMLElement, turns: readonly Turn[]): Turn | null {
  const edge = box.getBoundingClientRect().top;
  for (const node of box.querySelectorAll<HTMLElement>('[data-turn]')) {
    const { top, bottom } = node.getBoundingClientRect();
    if (bottom < edge + 40) continue;
    if (top > edge) return null;
    const prompt = node.querySelector('.prompt');
    const isAbove = prompt ? prompt.getBoundingClientRect().bottom < edge : true;
    return isAbove ? (turns.find((turn) => turn.key === node.dataset.turn) ?? null) : null;
  }
  return null;
}

/** Alt+Up and Alt+Down scroll to the previous and next turn. */
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

/** The number of the attempt if the next turn retries this one, otherwise undefined. */
function attemptOf(turns: readonly Turn[], turn: Turn): number | undefined {
  let at = turns.indexOf(turn);
  if (!isRetry(turns[at + 1], turn)) return undefined;
  let n = 1;
  for (; isRetry(turns[at], turns[at - 1]); at -= 1) n += 1;
  return n;
}

/** Whether a turn is a retry of the turn before it. */
function isRetry(turn: Turn | undefined, before: Turn | undefined): boolean {
  if (!turn?.promptId?.startsWith(RETRY_PREFIX) || !before) return false;
  return promptText(turn.prompt) === promptText(before.prompt);
}
