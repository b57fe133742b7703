/** Stores the unsent draft of each session in the workspace state, so that drafts survive a window reload. */

import type { Memento } from 'vscode';
import { type Draft, EMPTY_DRAFT } from '../../webview/messages.ts';

/** Total image size, in base64 characters, above which images are dropped: the workspace state is not made for them. */
const MAX_IMAGE_DATA = 2_000_000;

export class Drafts {
  private readonly sending = new Map<string, { session: string; draft: Draft }>();

  constructor(private readonly storage: Memento) {}

  /** The draft for the composer. One whose prompt is being sent is stored for a reload, and is not shown again. */
  get(session: string | null): Draft {
    const stored = this.stored(session);
    const isSent = [...this.sending.values()].some(
      (sent) => key(sent.session) === key(session) && sent.draft.text === stored.text,
    );
    if (!isSent) return stored;
    return stored.scroll ? { ...EMPTY_DRAFT, scroll: stored.scroll } : EMPTY_DRAFT;
  }

  /** Whether the session has unsent text or attachments. */
  has(session: string): boolean {
    const { text, chips } = this.get(session);
    return text.trim() !== '' || chips.length > 0;
  }

  save(session: string | null, draft: Draft): void {
    const empty = draft.text === '' && draft.chips.length === 0 && draft.scroll === undefined;
    const size = draft.chips.reduce((sum, chip) => sum + (chip.block.type === 'image' ? chip.block.data.length : 0), 0);
    const saved =
      size > MAX_IMAGE_DATA ? { ...draft, chips: draft.chips.filter((chip) => chip.block.type !== 'image') } : draft;
    void this.storage.update(key(session), empty ? undefined : saved);
  }

  /** Keeps the draft of a prompt that was sent until the server confirms the prompt. */
  startSending(promptId: string, session: string | null, draft: Draft): void {
    this.sending.set(promptId, { session: session ?? '', draft });
    this.save(session, draft);
  }

  /** Deletes the draft of a prompt that the server has. A draft that the user changed since then stays. */
  confirm(promptId: string): void {
    const sent = this.sending.get(promptId);
    if (!sent) return;
    this.sending.delete(promptId);
    const current = this.stored(sent.session);
    if (current.text === sent.draft.text) this.save(sent.session, EMPTY_DRAFT);
  }

  /** Returns the draft of a prompt that could not be sent. */
  restore(promptId: string): Draft {
    const draft = this.sending.get(promptId)?.draft ?? EMPTY_DRAFT;
    this.sending.delete(promptId);
    return draft;
  }

  delete(session: string): void {
    void this.storage.update(key(session), undefined);
  }

  private stored(session: string | null): Draft {
    return this.storage.get<Draft>(key(session)) ?? EMPTY_DRAFT;
  }
}

function key(session: string | null): string {
  return `pilotfish.draft.${session ?? ''}`;
}
