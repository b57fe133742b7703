import { describe, expect, it } from 'vitest';
import type { Memento } from 'vscode';
import { Drafts } from '../../../src/chat/drafts.ts';
import { EMPTY_DRAFT } from '../../../webview/messages.ts';

describe('drafts', () => {
  function storage(): Memento {
    const stored = new Map<string, unknown>();
    return {
      get: (key: string) => stored.get(key),
      update: async (key: string, value: unknown) =>
        void (value === undefined ? stored.delete(key) : stored.set(key, value)),
      keys: () => [...stored.keys()],
    } as Memento;
  }
  const draft = { ...EMPTY_DRAFT, text: 'a long prompt' };

  it('belong to one session (31)', () => {
    const drafts = new Drafts(storage());
    drafts.save('s1', draft);
    expect(drafts.get('s2')).toEqual(EMPTY_DRAFT);
    expect(drafts.get('s1')).toEqual(draft);
  });

  it('are deleted only when the server has the prompt (30)', () => {
    const stored = storage();
    const drafts = new Drafts(stored);
    drafts.startSending('p1', 's1', draft);
    const afterReload = () => new Drafts(stored).get('s1');
    expect(afterReload()).toEqual(draft);
    drafts.confirm('p1');
    expect(afterReload()).toEqual(EMPTY_DRAFT);
  });

  it('are not given back to the composer while their prompt is being sent', () => {
    const drafts = new Drafts(storage());
    drafts.save(null, { ...draft, scroll: { row: 'r1', top: 4 } });
    drafts.startSending('p1', null, draft);
    expect(drafts.get(null)).toEqual(EMPTY_DRAFT);
    expect(drafts.get('')).toEqual(EMPTY_DRAFT);
    drafts.save(null, { ...EMPTY_DRAFT, text: 'the next prompt' });
    expect(drafts.get(null).text).toBe('the next prompt');
  });

  it('stay if the user changed them since', () => {
    const drafts = new Drafts(storage());
    drafts.startSending('p1', 's1', draft);
    drafts.save('s1', { ...EMPTY_DRAFT, text: 'more' });
    drafts.confirm('p1');
    expect(drafts.get('s1').text).toBe('more');
  });

  it('are restored when sending failed', () => {
    const drafts = new Drafts(storage());
    drafts.startSending('p1', null, draft);
    expect(drafts.restore('p1')).toEqual(draft);
  });
});
