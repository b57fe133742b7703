/** What stands in the composer: kept by session, here and by the host, and cleared only when the server has it. */

import { signal } from '@preact/signals';
import type { ContentBlock } from '../../src/protocol.gen.ts';
import { type Chip, type Draft, EMPTY_DRAFT, type Place } from '../messages.ts';
import { post, state } from '../state/store.ts';

export const draft = signal<Draft>(EMPTY_DRAFT);

/** The composer's text was set from outside: the text box follows and puts the caret there. */
export const draftSet = signal(0);

const SAVE_AFTER = 300;
const LONG_PASTE = 50;
let timer: ReturnType<typeof setTimeout> | undefined;
let byHand = false;

/** The user changed it. */
export function editDraft(change: Partial<Draft>): void {
  byHand = true;
  draft.value = { ...draft.value, ...change };
  saveSoon();
}

/** Where the user reads is kept with the draft; undefined: at the end. */
export function markPlace(place: Place | undefined): void {
  const { scroll: _, ...rest } = draft.value;
  draft.value = place ? { ...rest, scroll: place } : rest;
  saveSoon();
}

/** Whether the user has changed it since it was set: then nobody else may. */
export function isByHand(): boolean {
  return byHand;
}

function saveSoon(): void {
  clearTimeout(timer);
  timer = setTimeout(saveDraft, SAVE_AFTER);
}

export function setDraft(next: Draft): void {
  clearTimeout(timer);
  timer = undefined;
  byHand = false;
  draft.value = next;
  draftSet.value += 1;
}

/** Beside what stands there already: nobody's words are replaced by a press of a button. */
export function addToDraft(text: string, chips: readonly Chip[]): void {
  const now = draft.value;
  const words = [now.text.trimEnd(), text].filter((part) => part !== '').join('\n');
  const present = new Set(now.chips.map((chip) => chip.id));
  const all = [...now.chips, ...chips.filter((chip) => !present.has(chip.id))];
  setDraft({ ...now, text: words, chips: all, caret: words.length });
  editDraft({});
}

export function saveDraft(): void {
  clearTimeout(timer);
  timer = undefined;
  const sessionId = state.value.session?.id ?? state.value.opening;
  post({ type: 'draft', sessionId, draft: draft.value });
}

/** What was written a moment ago is kept with its session before another one's draft takes its place. */
export function settleDraft(): void {
  if (timer !== undefined) saveDraft();
}

export function addChips(chips: readonly Chip[]): void {
  const present = new Set(draft.value.chips.map((chip) => chip.id));
  editDraft({ chips: [...draft.value.chips, ...chips.filter((chip) => !present.has(chip.id))] });
}

export function removeChip(id: string): void {
  editDraft({ chips: draft.value.chips.filter((chip) => chip.id !== id) });
}

export function isEmpty(one: Draft): boolean {
  return one.text.trim() === '' && one.chips.length === 0;
}

/** The draft as a prompt. Files mentioned in the text are attached only while the text still mentions them. */
export function promptOf(one: Draft): readonly ContentBlock[] {
  const text = one.text.trim();
  const attached = one.chips.filter((chip) => !chip.id.startsWith('@') || text.includes(chip.id));
  const words: ContentBlock[] = text === '' ? [] : [{ type: 'text', text }];
  return [...words, ...attached.map((chip) => chip.block)];
}

/** Chips that show above the text box; mentions stand in the text itself. */
export function shownChips(one: Draft): readonly Chip[] {
  return one.chips.filter((chip) => !chip.id.startsWith('@'));
}

export function isLongPaste(text: string): boolean {
  return text.split('\n').length > LONG_PASTE;
}
