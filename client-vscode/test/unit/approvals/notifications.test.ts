import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Approvals } from '../../../src/approvals/approvals.ts';
import { Notifications, notificationFor } from '../../../src/approvals/notifications.ts';
import type { ApprovalRequest } from '../../../src/protocol.gen.ts';
import { COMMAND_APPROVAL, EDIT_APPROVAL, TRIED_APPROVAL } from '../../harness/scenes.ts';
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
      () => undefined,
      LOG,
    );
    const answers = requests.map((request) => transport.requestApproval(request).answer);
    approvals.setCards(visible[0] ?? null, visible.slice(1));
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
    await notified([EDIT_APPROVAL], [], { inView: true, late: (approvals) => approvals.setCards('a1', []) });
    expect(shown).toEqual([]);
  });

  it('shows none for an approval that is listed beside the card', async () => {
    await notified([EDIT_APPROVAL, COMMAND_APPROVAL], ['a2', 'a1']);
    expect(shown).toEqual([]);
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
      () => undefined,
      LOG,
    );
    const { answer } = transport.requestApproval(EDIT_APPROVAL);
    pressed.next = (message) => {
      if (!message.includes('Edit')) return undefined;
      void approvals.answer('a1', { optionId: 'allow_once' });
      return 'Deny';
    };
    await vi.advanceTimersByTimeAsync(900);
    vi.useRealTimers();
    notifications.dispose();
    expect(await answer).toEqual({ optionId: 'allow_once' });
    expect(shown).toEqual(['Pilotfish: Edit src/auth.ts?', 'Already answered']);
  });
});

describe('the text of a notification', () => {
  const command = (text: string, args: Record<string, unknown> = {}, cwd = '/project') => ({
    ...COMMAND_APPROVAL,
    call: { ...COMMAND_APPROVAL.call, title: `Run ${text}`, args: { command: text, ...args } },
    preview: { kind: 'command' as const, command: text, cwd, parsed: [] },
  });
  const FOLDER = 'file:///project';

  it.each([
    [command('npm test'), 'Run npm test?'],
    [command('npm start', { background: true }), 'Run npm start (in the background)?'],
    [command('npm test', { timeout: 90 }), 'Run npm test (for at most 1m 30s)?'],
    [command('rm -r *', {}, '/'), 'Run rm -r * (in /)?'],
  ])('offers to allow a command that it shows completely: %#', (request, message) => {
    expect(notificationFor(request, FOLDER)).toEqual({ message, allow: true });
  });

  it.each([
    ['a long command (16)', command(`echo ${'x'.repeat(200)}`)],
    ['a title that is shorter than the command', { ...command(`echo ${'x'.repeat(200)}`), call: command('ls').call }],
    ['several lines (17)', command('echo a\nrm -rf b')],
    ['hidden characters (17)', command('echo \u202e')],
    ['a link', command('echo [x](command:y)')],
    ['an edit', EDIT_APPROVAL],
    ['what a tried command changed', TRIED_APPROVAL],
    ['a call of another tool', { ...EDIT_APPROVAL, preview: { kind: 'text' as const, text: '{"all": true}' } }],
  ])('does not offer to allow %s', (_, request) => {
    const { message, allow } = notificationFor(request, FOLDER);
    expect(allow).toBe(false);
    expect(message.length).toBeLessThanOrEqual(120);
  });
});
