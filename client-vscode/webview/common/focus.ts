/** Doors between parts of the view that are far apart on the page. */

import { signal } from '@preact/signals';
import type { Mention } from '../../src/protocol.gen.ts';
import type { Place } from '../messages.ts';

/** Set by the transcript, used by whoever must bring something into sight. */
export const scroller: {
  follow: () => void;
  leave: () => void;
  reveal: (selector: string) => void;
  /** something that grows: from its beginning on, unless the end shows all of it */
  showWhole: (node: HTMLElement) => void;
  /** where the user reads; undefined: at the end */
  place: () => Place | undefined;
} = {
  follow: () => {},
  leave: () => {},
  reveal: () => {},
  showWhole: () => {},
  place: () => undefined,
};

/** Where the user read before the view went away, until the transcript has gone there. */
export const leftAt = signal<Place | undefined>(undefined);

/** The question whose card the user asked for (null: the first), until the transcript has brought it into sight. */
export const wanted = signal<string | null | undefined>(undefined);

/** The card's own place takes the focus, none of its buttons: the next key answers nothing. */
export function focusCard(card: Element): void {
  if (card instanceof HTMLElement) card.focus({ preventScroll: true });
}

/** Whoever answered with the focus in a card, or in the dock, goes on at the next card that waits, else at the composer:
 * not at nothing. */
export function leaveAnswered(place: Element | null): void {
  if (!place?.contains(document.activeElement)) return;
  // The first frame paints the answer, and takes the button away that has the focus.
  requestAnimationFrame(() => requestAnimationFrame(goOn));
}

function goOn(): void {
  if (document.activeElement !== document.body) return;
  const next = document.querySelector('.card.approval[data-waits]');
  if (next) focusCard(next);
  else composerFocus.value += 1;
}

/** Grows when the composer should take the focus: only ever because the user asked. */
export const composerFocus = signal(0);

/** How long the editor may take to hand the focus to the view, in ms. */
const HANDED_OVER = 1000;

/** Does it while the view has the focus, or is about to get it. A user who has gone on meanwhile is left there. */
export function whileFocused(run: () => void): () => void {
  if (document.hasFocus()) run();
  else addEventListener('focus', run, { once: true });
  const forget = () => removeEventListener('focus', run);
  const timer = setTimeout(forget, HANDED_OVER);
  return () => {
    clearTimeout(timer);
    forget();
  };
}

/** What `@` was answered with so far, by query. */
export const mentions = signal<ReadonlyMap<string, readonly Mention[]>>(new Map());
