/** Signals and functions with which distant components scroll the transcript and move the focus. */

import { signal } from '@preact/signals';
import type { Mention } from '../../src/protocol.gen.ts';
import type { ScrollPosition } from '../messages.ts';

/** Scrolls the transcript. The transcript component sets the functions. */
export const scroller: {
  follow: () => void;
  leave: () => void;
  reveal: (selector: string) => void;
  /** the current scroll position; undefined at the end */
  position: () => ScrollPosition | undefined;
} = {
  follow: () => {},
  leave: () => {},
  reveal: () => {},
  position: () => undefined,
};

/** The scroll position to restore after a reload, until the transcript has restored it. */
export const savedPosition = signal<ScrollPosition | undefined>(undefined);

/** The approval whose card to show (null for the next one), until it is shown. */
export const requestedCard = signal<string | null | undefined>(undefined);

/** Focuses the card itself and none of its buttons, so that the next key press does not answer it. */
export function focusCard(card: Element): void {
  if (card instanceof HTMLElement) card.focus({ preventScroll: true });
}

/** After an answer from a focused card or the dock, moves the focus to the next pending card or to the composer. */
export function focusNextCard(answeredFrom: Element | null): void {
  const before = document.activeElement;
  if (!before || !answeredFrom?.contains(before)) return;
  requestAnimationFrame(() => moveFocus(before, MAX_FRAMES));
}

/** How many frames it may take until the answer is rendered, which removes the focused button. */
const MAX_FRAMES = 60;

function moveFocus(before: Element, frames: number): void {
  if (before.isConnected && frames > 0) {
    requestAnimationFrame(() => moveFocus(before, frames - 1));
    return;
  }
  if (document.activeElement !== document.body) return;
  const next = document.querySelector('.card.approval[data-pending]');
  if (next) focusCard(next);
  else composerFocus.value += 1;
}

/** Incremented to focus the composer. Only for actions of the user. */
export const composerFocus = signal(0);

/** How long VS Code may take to move the focus to the view, in ms. */
const FOCUS_TIMEOUT = 1000;

/** Runs now if the view has the focus, or when it gets the focus within `FOCUS_TIMEOUT`. Returns a cancel function. */
export function whenFocused(run: () => void): () => void {
  if (document.hasFocus()) run();
  else addEventListener('focus', run, { once: true });
  const cancel = () => removeEventListener('focus', run);
  const timer = setTimeout(cancel, FOCUS_TIMEOUT);
  return () => {
    clearTimeout(timer);
    cancel();
  };
}

/** Cache of the completions of `@`, by query. */
export const mentions = signal<ReadonlyMap<string, readonly Mention[]>>(new Map());
