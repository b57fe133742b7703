/** Which cards are in sight: the host raises a notification only for the others. */

import { dispatch, post } from './store.ts';

const seen = new Set<string>();
const cards = new Map<Element, string>();
let observer: IntersectionObserver | undefined;
let told = '';

/** Watches a card until the returned function is called. */
export function watchCard(id: string, node: Element | null): (() => void) | undefined {
  if (!node) return undefined;
  observer ??= new IntersectionObserver(note, { threshold: 0.3 });
  cards.set(node, id);
  observer.observe(node);
  return () => {
    observer?.unobserve(node);
    cards.delete(node);
    seen.delete(id);
    tellVisible();
  };
}

export function tellVisible(): void {
  const visible = document.visibilityState === 'visible' ? [...seen].sort() : [];
  const key = visible.join();
  if (key === told) return;
  told = key;
  dispatch({ type: 'sawCards', approvalIds: visible });
  post({ type: 'visibleCards', approvalIds: visible });
}

function note(entries: readonly IntersectionObserverEntry[]): void {
  for (const entry of entries) {
    const card = cards.get(entry.target);
    if (card === undefined) continue;
    if (entry.isIntersecting) seen.add(card);
    else seen.delete(card);
  }
  tellVisible();
}
