/**
 * Tells the host which approvals the user can see: the card, which keyboard shortcuts answer, and those listed above it.
 *
 * The host shows notifications for all others.
 */

import { post } from '../state/store.ts';

let shown: { current: string | null; listed: readonly string[] } = { current: null, listed: [] };
let lastReport = JSON.stringify(shown);

/** Called when the card or the list has changed. */
export function setCards(current: string | null, listed: readonly string[]): void {
  shown = { current, listed };
  reportCards();
}

/** Sends the visible approvals to the host if they changed. A hidden page shows none. */
export function reportCards(): void {
  const seen = document.visibilityState === 'visible' ? shown : { current: null, listed: [] };
  const report = JSON.stringify(seen);
  if (report === lastReport) return;
  lastReport = report;
  post({ type: 'cards', ...seen });
}
