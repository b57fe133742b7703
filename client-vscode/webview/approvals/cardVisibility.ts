/** Which cards are in sight, and where the others are: the host raises a notification only for those, and the dock
 * says which way they lie. */

import { dispatch, post } from '../state/store.ts';

/** This part of a card is enough to know it by, or of the view, for a card that is larger. */
const ENOUGH = 0.3;
const STEPS = Array.from({ length: 21 }, (_, step) => step / 20);

type Sight = 'seen' | 'above' | 'below';

const sights = new Map<string, Sight>();
const cards = new Map<Element, string>();
let observer: IntersectionObserver | undefined;
let told = JSON.stringify([null, [], []]);
let toldAbove = '';

/** Watches a card until the returned function is called. */
export function watchCard(id: string, node: Element | null): (() => void) | undefined {
  if (!node) return undefined;
  observer ??= new IntersectionObserver(note, { threshold: STEPS });
  cards.set(node, id);
  observer.observe(node);
  return () => {
    observer?.unobserve(node);
    cards.delete(node);
    sights.delete(id);
    tellVisible();
  };
}

export function tellVisible(): void {
  const are = (sight: Sight) => [...sights].flatMap(([id, is]) => (is === sight ? [id] : [])).sort();
  const visible = document.visibilityState === 'visible' ? are('seen') : [];
  const above = are('above');
  const others = [...sights.keys()].filter((id) => !visible.includes(id)).sort();
  const focused = focusedCard();
  const key = JSON.stringify([focused, visible, others]);
  if (key === told && above.join() === toldAbove) return;
  toldAbove = above.join();
  dispatch({ type: 'sawCards', approvalIds: visible, above });
  if (key === told) return;
  told = key;
  post({ type: 'visibleCards', approvalIds: visible, others, focused });
}

/** The card the user is in: what a key answers. */
function focusedCard(): string | null {
  const card = document.hasFocus() ? document.activeElement?.closest<HTMLElement>('[data-approval]') : null;
  return card?.dataset.approval ?? null;
}

for (const moved of ['focusin', 'focusout', 'focus', 'blur']) addEventListener(moved, () => setTimeout(tellVisible));

function note(entries: readonly IntersectionObserverEntry[]): void {
  for (const entry of entries) {
    const card = cards.get(entry.target);
    if (card !== undefined) sights.set(card, sightOf(entry));
  }
  tellVisible();
}

function sightOf(entry: IntersectionObserverEntry): Sight {
  const shown = entry.intersectionRect.height;
  if (entry.isIntersecting && (entry.intersectionRatio >= ENOUGH || shown >= window.innerHeight * ENOUGH))
    return 'seen';
  const middle = entry.boundingClientRect.top + entry.boundingClientRect.height / 2;
  return middle < window.innerHeight / 2 ? 'above' : 'below';
}
