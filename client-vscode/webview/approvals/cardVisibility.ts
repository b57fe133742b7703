/**
 * Tracks which approval cards are visible.
 *
 * The host shows notifications only for approvals whose card is not visible, and the dock shows in which direction
 * they are.
 */

import { dispatch, post } from '../state/store.ts';

/** A card counts as visible if this part of it is visible, or if it fills this part of the view. */
const MIN_VISIBLE = 0.3;
const STEPS = Array.from({ length: 21 }, (_, step) => step / 20);

type CardPosition = 'visible' | 'above' | 'below';

const positions = new Map<string, CardPosition>();
const cards = new Map<Element, string>();
let observer: IntersectionObserver | undefined;
let lastReport = JSON.stringify([null, [], []]);
let lastAbove = '';

/** Observes a card until the returned function is called. */
export function watchCard(id: string, node: Element | null): (() => void) | undefined {
  if (!node) return undefined;
  observer ??= new IntersectionObserver(handleIntersections, { threshold: STEPS });
  cards.set(node, id);
  observer.observe(node);
  return () => {
    observer?.unobserve(node);
    cards.delete(node);
    positions.delete(id);
    reportVisibleCards();
  };
}

/** Sends the visible, hidden and focused cards to the host and the reducer if they changed. */
export function reportVisibleCards(): void {
  const cardsAt = (wanted: CardPosition) =>
    [...positions].flatMap(([id, position]) => (position === wanted ? [id] : [])).sort();
  const visible = document.visibilityState === 'visible' ? cardsAt('visible') : [];
  const above = cardsAt('above');
  const others = [...positions.keys()].filter((id) => !visible.includes(id)).sort();
  const focused = focusedCard();
  const report = JSON.stringify([focused, visible, others]);
  if (report === lastReport && above.join() === lastAbove) return;
  lastAbove = above.join();
  dispatch({ type: 'cardsMoved', visible, above });
  if (report === lastReport) return;
  lastReport = report;
  post({ type: 'visibleCards', approvalIds: visible, others, focused });
}

/** The card that contains the focus; keyboard shortcuts answer it. */
function focusedCard(): string | null {
  const card = document.hasFocus() ? document.activeElement?.closest<HTMLElement>('[data-approval]') : null;
  return card?.dataset.approval ?? null;
}

for (const event of ['focusin', 'focusout', 'focus', 'blur'])
  addEventListener(event, () => setTimeout(reportVisibleCards));

function handleIntersections(entries: readonly IntersectionObserverEntry[]): void {
  for (const entry of entries) {
    const card = cards.get(entry.target);
    if (card !== undefined) positions.set(card, positionOf(entry));
  }
  reportVisibleCards();
}

function positionOf(entry: IntersectionObserverEntry): CardPosition {
  const shown = entry.intersectionRect.height;
  if (entry.isIntersecting && (entry.intersectionRatio >= MIN_VISIBLE || shown >= window.innerHeight * MIN_VISIBLE))
    return 'visible';
  const middle = entry.boundingClientRect.top + entry.boundingClientRect.height / 2;
  return middle < window.innerHeight / 2 ? 'above' : 'below';
}
