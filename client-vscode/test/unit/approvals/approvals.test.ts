import { beforeEach, describe, expect, it, vi } from 'vitest';
import { showApprovalOfOtherSession } from '../../../src/approvals/approvalCommands.ts';
import type { ApprovalRequest } from '../../../src/protocol.gen.ts';
import type { Services } from '../../../src/services.ts';
import type { ToView } from '../../../webview/messages.ts';
import { COMMAND_APPROVAL, EDIT_APPROVAL, SESSION } from '../../harness/scenes.ts';
import { connected } from '../support/transport.ts';
import { pressed, settings, shown } from '../support/vscode.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

beforeEach(() => {
  shown.length = 0;
  pressed.next = undefined;
  for (const name of Object.keys(settings)) delete settings[name];
});

describe('approvals', () => {
  it('accepts the first answer and reports a late one (9, 10)', async () => {
    const { approvals, transport } = connected();
    const { answer } = transport.requestApproval(EDIT_APPROVAL);
    expect(await approvals.answer('a1', { optionId: 'allow_once' })).toBe(true);
    expect(await approvals.answer('a1', { optionId: 'reject' })).toBe(false);
    expect(await answer).toEqual({ optionId: 'allow_once' });
    expect(shown).toEqual(['Pilotfish: already answered']);
    expect(approvals.pending).toEqual([]);
  });

  it('removes an approval that another client answered', () => {
    const { approvals, transport } = connected();
    void transport.requestApproval(EDIT_APPROVAL).answer.catch(() => {});
    transport.notifications.get('pilotfish/approval/resolved')?.({
      approvalId: 'a1',
      sessionId: 's1',
      optionId: 'reject',
      by: 'x',
    } as never);
    expect(approvals.pending).toEqual([]);
  });

  it('removes an approval that the server cancels, and rejects its request', async () => {
    const { approvals, transport } = connected();
    const { answer, cancel } = transport.requestApproval(EDIT_APPROVAL);
    cancel();
    await expect(answer).rejects.toThrow();
    expect(approvals.pending).toEqual([]);
  });

  it('answers an approval from a transcript with a request', async () => {
    const { approvals, transport } = connected();
    approvals.sync('s1', [EDIT_APPROVAL]);
    expect(await approvals.answer('a1', { optionId: 'reject', feedback: 'no' })).toBe(true);
    expect(transport.sent).toEqual([
      ['pilotfish/approval/answer', { approvalId: 'a1', optionId: 'reject', feedback: 'no' }],
    ]);
  });

  it('keeps an approval that cannot be answered because the server is gone, and reports why', async () => {
    const { approvals, connection } = connected();
    const refused: unknown[] = [];
    approvals.onDidRefuse((one) => refused.push(one));
    approvals.sync('s1', [EDIT_APPROVAL]);
    connection.detach();
    expect(await approvals.answer('a1', { optionId: 'allow_once' })).toBe(false);
    expect(refused).toEqual([{ approvalId: 'a1', message: 'Pilotfish is not running.' }]);
    expect(approvals.pending).toEqual([EDIT_APPROVAL]);
  });

  it('does not allow an approval by a rule that could not be saved', async () => {
    const { approvals, transport } = connected();
    const { answer } = transport.requestApproval(EDIT_APPROVAL);
    const rule = { tool: 'edit_file', pattern: '(', scope: 'user' as const };
    const refused: unknown[] = [];
    approvals.onDidRefuse((one) => refused.push(one));
    vi.spyOn(transport, 'sendRequest').mockRejectedValueOnce(new Error('That pattern cannot be one.'));
    await approvals.allowByRule('a1', rule);
    expect(refused).toEqual([{ approvalId: 'a1', message: 'That pattern cannot be one.' }]);
    expect(approvals.pending).toEqual([EDIT_APPROVAL]);
    await approvals.allowByRule('a1', { ...rule, pattern: 'src/**' });
    expect(transport.sent).toEqual([
      ['pilotfish/rule/add', { decision: 'allow', ...rule, pattern: 'src/**', sessionId: 's1' }],
    ]);
    expect(await answer).toEqual({ optionId: 'allow_once' });
  });

  it('accepts keys only for a card that has been visible for half a second (6)', () => {
    vi.useFakeTimers();
    const { approvals, transport } = connected();
    void transport.requestApproval(EDIT_APPROVAL);
    expect(approvals.acceptsKeys('a1')).toBe(false);
    approvals.setCards('a1', ['a2']);
    expect(approvals.acceptsKeys('a1')).toBe(false);
    vi.advanceTimersByTime(600);
    expect(approvals.acceptsKeys('a1')).toBe(true);
    // A listed approval becomes the card: it has been seen, but not for long enough as the card.
    approvals.setCards('a2', []);
    expect(approvals.acceptsKeys('a2')).toBe(false);
    vi.useRealTimers();
  });

  it('applies keys to the visible card, else the oldest of the session, else the oldest', () => {
    const { approvals, transport } = connected();
    const ofOtherSession = { ...EDIT_APPROVAL, approvalId: 'other', sessionId: 's2' };
    for (const request of [ofOtherSession, EDIT_APPROVAL, COMMAND_APPROVAL]) void transport.requestApproval(request);
    const currentFor = (focused: string | null, session: string | undefined) => {
      approvals.setCards(focused, []);
      return approvals.current(session)?.approvalId;
    };
    expect([
      currentFor('a2', 's1'),
      currentFor(null, 's1'),
      currentFor('gone', 's1'),
      currentFor(null, undefined),
    ]).toEqual(['a2', 'a1', 'a1', 'other']);
  });

  it('allows all edits of a turn, also later ones, but nothing that must be seen', async () => {
    const { approvals, transport } = connected();
    const option = { id: 'allow_session' as const, label: '', matches: [], excludes: [] };
    const edit = (approvalId: string, more: Partial<ApprovalRequest> = {}): ApprovalRequest => ({
      ...EDIT_APPROVAL,
      options: [...EDIT_APPROVAL.options.filter(({ id }) => id !== 'allow_session'), option],
      ...more,
      approvalId,
    });
    const first = transport.requestApproval(edit('first')).answer;
    const second = transport.requestApproval(edit('second')).answer;
    void transport.requestApproval(COMMAND_APPROVAL);
    await approvals.allowTurnEdits('first');
    expect([await first, await second]).toEqual([{ optionId: 'allow_once' }, { optionId: 'allow_once' }]);
    expect(await transport.requestApproval(edit('later')).answer).toEqual({ optionId: 'allow_once' });
    void transport.requestApproval(edit('sensitive', { options: [] }));
    void transport.requestApproval(edit('elsewhere', { turnId: 'another' }));
    expect(approvals.pending.map(({ approvalId }) => approvalId)).toEqual(['a2', 'sensitive', 'elsewhere']);
    approvals.endTurn(EDIT_APPROVAL.turnId);
    void transport.requestApproval(edit('after'));
    expect(approvals.pending.at(-1)?.approvalId).toBe('after');
  });

  it('shows the approval of another session, even if the session in view has one', async () => {
    const { approvals, transport } = connected();
    for (const request of [EDIT_APPROVAL, { ...EDIT_APPROVAL, approvalId: 'other', sessionId: 's2' }])
      void transport.requestApproval(request);
    const calls: unknown[] = [];
    const chat = { session: SESSION, open: async (id: string) => calls.push(['open', id]) };
    const view = { revealAndPost: async (message: ToView) => calls.push(message) };
    await showApprovalOfOtherSession({ approvals, chat, view } as unknown as Services);
    expect(calls).toEqual([['open', 's2'], { type: 'reveal', approvalId: 'other' }]);
  });

  it('takes over the approvals of a transcript, and drops those that it no longer lists', () => {
    const { approvals } = connected();
    const events: string[] = [];
    approvals.onDidAdd(({ approvalId }) => events.push(`added ${approvalId}`));
    approvals.onDidResolve(({ approvalId, optionId }) => events.push(`${optionId} ${approvalId}`));
    const ofOtherSession = { ...EDIT_APPROVAL, approvalId: 'other', sessionId: 's2' };
    approvals.sync('s2', [ofOtherSession]);
    approvals.sync('s1', [EDIT_APPROVAL]);
    approvals.sync('s1', [EDIT_APPROVAL, COMMAND_APPROVAL]);
    approvals.sync('s1', [COMMAND_APPROVAL]);
    expect(events).toEqual(['added other', 'added a1', 'added a2', 'cancelled a1']);
    expect(approvals.pending).toEqual([ofOtherSession, COMMAND_APPROVAL]);
  });

  it('keeps an approval that the server requested after the transcript was read', () => {
    const { approvals, transport } = connected();
    void transport.requestApproval(EDIT_APPROVAL);
    approvals.sync('s1', []);
    expect(approvals.pending).toEqual([EDIT_APPROVAL]);
  });

  it('removes the approvals of a turn that ended, and all of them after a crash', () => {
    const { approvals, transport } = connected();
    for (const request of [
      EDIT_APPROVAL,
      { ...COMMAND_APPROVAL, turnId: 't2' },
      { ...EDIT_APPROVAL, approvalId: 'a3', turnId: 't3' },
    ])
      void transport.requestApproval(request);
    approvals.endTurn('t2');
    expect(approvals.pending.map(({ approvalId }) => approvalId)).toEqual(['a1', 'a3']);
    approvals.clear();
    expect(approvals.pending).toEqual([]);
  });
});

describe('an approval whose proposal the user changed', () => {
  it('is allowed with the changes', async () => {
    const { approvals, transport } = connected();
    approvals.amendment = () => ({ args: { content: 'mine' } });
    const { answer } = transport.requestApproval(EDIT_APPROVAL);
    await approvals.answer('a1', { optionId: 'allow_session' });
    expect(await answer).toEqual({ optionId: 'allow_session', args: { content: 'mine' } });
  });

  it('is denied like any other', async () => {
    const { approvals, transport } = connected();
    approvals.amendment = () => ({});
    const { answer } = transport.requestApproval(EDIT_APPROVAL);
    await approvals.answer('a1', { optionId: 'reject' });
    expect(await answer).toEqual({ optionId: 'reject' });
  });

  it('is not allowed if the call cannot express the changes', async () => {
    const { approvals, transport } = connected();
    approvals.amendment = () => ({});
    const refused: string[] = [];
    approvals.onDidRefuse(({ approvalId }) => refused.push(approvalId));
    transport.requestApproval(EDIT_APPROVAL);
    expect(await approvals.answer('a1', { optionId: 'allow_once' })).toBe(false);
    expect([refused, approvals.pending.map(({ approvalId }) => approvalId)]).toEqual([['a1'], ['a1']]);
  });
});
