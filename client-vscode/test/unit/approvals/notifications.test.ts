import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Approvals } from '../../../src/approvals/approvals.ts';
import { Notifications, notificationFor } from '../../../src/approvals/notifications.ts';
import type { ApprovalRequest } from '../../../src/protocol.gen.ts';
import { COMMAND_APPROVAL, EDIT_APPROVAL } from '../../harness/scenes.ts';
import { connected } from '../support/transport.ts';
import { LOG, pressed, settings, shown } from '../support/vscode.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

beforeEach(() => {
  shown.length = 0;
  pressed.next = undefined;
  for (const name of Object.keys(settings)) delete settings[name];
});

describe('notifications', () => {
  const many = [1, 2, 3, 4, 5].map((n) => ({ ...COMMAND_APPROVAL, approvalId: `n${n}` }));

  /** Requests approvals, waits 900 ms, calls `late`, and waits another 200 ms. */
  async function notified(
    requests: readonly ApprovalRequest[],
    visible: readonly string[] = [],
    { inView = false, late = () => {} }: { inView?: boolean; late?: (approvals: Approvals) => void } = {},
  ) {
    vi.useFakeTimers();
    const { approvals, transport } = connected();
    const opened: string[] = [];
    const notifications = new Notifications(
      approvals,
      () => inView,
      async (id) => void opened.push(id),
      async () => {},
      LOG,
    );
    const answers = requests.map((request) => transport.requestApproval(request).answer);
    approvals.setVisibleCards(visible, null);
    await vi.advanceTimersByTimeAsync(900);
    if (inView) expect(shown).toEqual([]);
    late(approvals);
    await vi.advanceTimersByTimeAsync(200);
    vi.useRealTimers();
    notifications.dispose();
    return { approvals, opened, answers };
  }

  it('shows one notification for five approvals (14)', async () => {
    await notified(many);
    expect(shown).toEqual(['Pilotfish: 5 approvals waiting']);
  });

  it('shows none for a visible card (13)', async () => {
    await notified([EDIT_APPROVAL], ['a1']);
    expect(shown).toEqual([]);
  });

  it('gives a visible chat time to render the card', async () => {
    await notified([EDIT_APPROVAL], [], { inView: true, late: (approvals) => approvals.setVisibleCards(['a1'], null) });
    expect(shown).toEqual([]);
  });

  it('shows one for a card that is scrolled out of view', async () => {
    await notified([EDIT_APPROVAL], [], {
      inView: true,
      late: (approvals) => approvals.setVisibleCards([], null, ['a1']),
    });
    expect(shown).toEqual(['Pilotfish: Edit src/auth.ts?']);
  });

  it('does not wait forever for a chat that does not render the card', async () => {
    await notified([EDIT_APPROVAL], [], { inView: true, late: () => vi.advanceTimersByTime(5000) });
    expect(shown).toEqual(['Pilotfish: Edit src/auth.ts?']);
  });

  it('respects the setting', async () => {
    settings.notify = 'never';
    await notified([EDIT_APPROVAL]);
    expect(shown).toEqual([]);
  });

  it('leaves the approval pending when it is dismissed (11)', async () => {
    const { approvals } = await notified([EDIT_APPROVAL]);
    expect(shown).toEqual(['Pilotfish: Edit src/auth.ts?']);
    expect(approvals.pending).toHaveLength(1);
  });

  it('answers with its button', async () => {
    pressed.next = (_, buttons) => buttons.find((button) => button === 'Deny');
    const { answers } = await notified([EDIT_APPROVAL]);
    expect(await answers[0]).toEqual({ optionId: 'reject' });
  });

  it('reports that a button was pressed too late (10)', async () => {
    vi.useFakeTimers();
    const { approvals, transport } = connected();
    const notifications = new Notifications(
      approvals,
      () => false,
      async () => {},
      async () => {},
      LOG,
    );
    const { answer } = transport.requestApproval(EDIT_APPROVAL);
    pressed.next = (message) => {
      if (!message.includes('Edit')) return undefined;
      void approvals.answer('a1', { optionId: 'reject' });
      return 'Allow';
    };
    await vi.advanceTimersByTimeAsync(900);
    vi.useRealTimers();
    notifications.dispose();
    expect(await answer).toEqual({ optionId: 'reject' });
    expect(shown).toEqual(['Pilotfish: Edit src/auth.ts?', 'Already answered']);
  });
});

describe('the text of a notification', () => {
  const command = (text: string) => ({
    ...COMMAND_APPROVAL,
    call: { ...COMMAND_APPROVAL.call, title: `Run ${text}` },
    preview: { kind: 'command' as const, command: text, cwd: '/', parsed: [] },
  });

  it('offers to allow a call that it shows completely', () => {
    expect(notificationFor(EDIT_APPROVAL)).toEqual({ message: 'Edit src/auth.ts?', allow: true });
    expect(notificationFor(command('npm test'))).toEqual({ message: 'Run npm test?', allow: true });
  });

  it('does not offer to allow a long command (16)', () => {
    const { message, allow } = notificationFor(command(`echo ${'x'.repeat(200)}`));
    expect(allow).toBe(false);
    expect(message.length).toBeLessThanOrEqual(120);
  });

  it('does not offer to allow multiple lines or hidden characters (17)', () => {
    expect(notificationFor(command('echo a\nrm -rf b')).allow).toBe(false);
    expect(notificationFor(command('echo \u202e')).allow).toBe(false);
  });
});
