/** The draft in the composer. The host stores it per session and deletes it when the server has the prompt. */

import { signal } from '@preact/signals';
import type { ContentBlock } from '../../src/protocol.gen.ts';
import { type Chip, type Draft, EMPTY_DRAFT, type ScrollPosition } from '../messages.ts';
import { post, state } from '../state/store.ts';

export const draft = signal<Draft>(EMPTY_DRAFT);

/** Incremented when code replaces the draft, so that the text box takes over its text and caret. */
export const draftResets = signal(0);

const SAVE_DELAY_MS = 300;
const LONG_PASTE_LINES = 50;
let timer: ReturnType<typeof setTimeout> | undefined;
let edited = false;

/** Changes the draft on behalf of the user. */
export function editDraft(change: Partial<Draft>): void {
  edited = true;
  draft.value = { ...draft.value, ...change };
  saveSoon();
}

/** Saves the scroll position with the draft; undefined for the end of the transcript. */
export function saveScrollPosition(position: ScrollPosition | undefined): void {
  const { scroll: _, ...rest } = draft.value;
  draft.value = position ? { ...rest, scroll: position } : rest;
  saveSoon();
}

/** Whether the user has changed the draft since it was set. Then the host must not replace it. */
export function isEdited(): boolean {
  return edited;
}

function saveSoon(): void {
  clearTimeout(timer);
  timer = setTimeout(saveDraft, SAVE_DELAY_MS);
}

export function setDraft(next: Draft): void {
  clearTimeout(timer);
  timer = undefined;
  edited = false;
  draft.value = next;
  draftResets.value += 1;
}

/** Adds text and chips to the draft, and keeps what the user has written. */
export function addToDraft(text: string, chips: readonly Chip[]): void {
  const now = draft.value;
  const joined = [now.text.trimEnd(), text].filter((part) => part !== '').join('\n');
  const present = new Set(now.chips.map((chip) => chip.id));
  const all = [...now.chips, ...chips.filter((chip) => !present.has(chip.id))];
  setDraft({ ...now, text: joined, chips: all, caret: joined.length });
  editDraft({});
}

export function saveDraft(): void {
  clearTimeout(timer);
  timer = undefined;
  const sessionId = state.value.session?.id ?? state.value.opening;
  post({ type: 'draft', sessionId, draft: draft.value });
}

/** Saves a pending change now, before the draft of another session replaces it. */
export function flushDraft(): void {
  if (timer !== undefined) saveDraft();
}

export function addChips(chips: readonly Chip[]): void {
  const present = new Set(draft.value.chips.map((chip) => chip.id));
  editDraft({ chips: [...draft.value.chips, ...chips.filter((chip) => !present.has(chip.id))] });
}

export function removeChip(id: string): void {
  editDraft({ chips: draft.value.chips.filter((chip) => chip.id !== id) });
}

export function isEmpty(value: Draft): boolean {
  return value.text.trim() === '' && value.chips.length === 0;
}

/** Converts the draft to a prompt. Chips of mentions are attached only if the text still contains the mention. */
export function promptOf(value: Draft): readonly ContentBlock[] {
  const text = value.text.trim();
  const attached = value.chips.filter((chip) => !chip.id.startsWith('@') || text.includes(chip.id));
  const textBlocks: ContentBlock[] = text === '' ? [] : [{ type: 'text', text }];
  return [...textBlocks, ...attached.map((chip) => chip.block)];
}

/** The chips above the text box. Mentions are visible in the text itself. */
export function shownChips(value: Draft): readonly Chip[] {
  return value.chips.filter((chip) => !chip.id.startsWith('@'));
}

export function isLongPaste(text: string): boolean {
  return text.split('\n').length > LONG_PASTE_LINES;
}
