/** What was written and not yet taken up by the server, by session; it outlives the window. */

import type { Memento } from 'vscode';
import { type Draft, EMPTY_DRAFT } from '../../webview/messages.ts';

/** Images are kept only while they are small: this storage is not made for them. */
const MAX_KEPT = 2_000_000;

export class Drafts {
  private readonly sent = new Map<string, { session: string; draft: Draft }>();

  constructor(private readonly storage: Memento) {}

  get(session: string | null): Draft {
    return this.storage.get<Draft>(key(session)) ?? EMPTY_DRAFT;
  }

  /** Whether something was written and not sent. */
  has(session: string): boolean {
    const { text, chips } = this.get(session);
    return text.trim() !== '' || chips.length > 0;
  }

  keep(session: string | null, draft: Draft): void {
    const empty = draft.text === '' && draft.chips.length === 0 && draft.scroll === undefined;
    const size = draft.chips.reduce((sum, chip) => sum + (chip.block.type === 'image' ? chip.block.data.length : 0), 0);
    const kept =
      size > MAX_KEPT ? { ...draft, chips: draft.chips.filter((chip) => chip.block.type !== 'image') } : draft;
    void this.storage.update(key(session), empty ? undefined : kept);
  }

  /** Sent, but the server has not said that it has it: until then it stays a draft. */
  sending(promptId: string, session: string | null, draft: Draft): void {
    this.sent.set(promptId, { session: session ?? '', draft });
    this.keep(session, draft);
  }

  /** The server has it. Only that draft goes; what was written since stays. */
  taken(promptId: string): void {
    const sent = this.sent.get(promptId);
    if (!sent) return;
    this.sent.delete(promptId);
    const now = this.get(sent.session);
    if (now.text === sent.draft.text) this.keep(sent.session, EMPTY_DRAFT);
  }

  failed(promptId: string): Draft {
    const draft = this.sent.get(promptId)?.draft ?? EMPTY_DRAFT;
    this.sent.delete(promptId);
    return draft;
  }

  forget(session: string): void {
    void this.storage.update(key(session), undefined);
  }
}

function key(session: string | null): string {
  return `pilotfish.draft.${session ?? ''}`;
}
