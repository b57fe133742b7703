/** Cards of approvals in the chat view. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ApprovalRequest } from '../../src/protocol.gen.ts';
import type { ToView } from '../../webview/messages.ts';
import { posted, say } from '../harness/page.ts';
import {
  COMMAND_APPROVAL,
  call,
  EDIT_APPROVAL,
  EDIT_CALL,
  SCENES,
  TRIED_APPROVAL,
  updates,
} from '../harness/scenes.ts';
import { bareView, OPEN, STARTED, WAITING } from './support/bare.ts';

const asked = (request: ApprovalRequest): ToView => ({ type: 'approval', request });
const COMMAND: readonly ToView[] = [
  ...OPEN,
  updates([STARTED, { kind: 'tool_call', call: COMMAND_APPROVAL.call }]),
  asked(COMMAND_APPROVAL),
];

bareView('cards', (bare) => {
  const button = (name: string) => bare.page.getByRole('button', { name, exact: true });

  test('5. typing while a card appears does not answer it', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, { kind: 'tool_call', call: EDIT_CALL }])]);
    await bare.prompt().focus();
    await page.keyboard.type('yes ');
    await say(page, [asked(EDIT_APPROVAL)]);
    await page.keyboard.type('y a n 1 ');
    // Also when the card accepts input: plain keys never answer it.
    await bare.card();
    await bare.prompt().focus();
    await page.keyboard.type('y a n 1');
    assert.deepEqual(await posted(page, 'answer'), []);
    assert.equal(await bare.prompt().inputValue(), 'yes y a n 1 y a n 1');
  });

  test('6. a card ignores input for 500 ms', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, { kind: 'tool_call', call: EDIT_CALL }])]);
    // Click in every frame from the card's first one; the first answer shows how old the card was.
    const age = await page.evaluate(async (message) => {
      window.say(message as ToView);
      let born = 0;
      for (;;) {
        await new Promise((done) => requestAnimationFrame(done));
        const card = document.querySelector('.card.approval');
        if (!card) continue;
        if (born === 0) born = performance.now();
        const allow = [...card.querySelectorAll('button')].find((one) => one.textContent?.startsWith('Allow'));
        allow?.click();
        const answered = window.posted.some((one) => one.type === 'answer');
        if (answered || performance.now() - born > 20_000) return answered ? performance.now() - born : -1;
      }
    }, asked(EDIT_APPROVAL));
    // One frame and the rounding of the page's clock can pass between the creation of the card and the first check.
    assert.ok(age >= 450, `answered after ${age} ms`);
    assert.deepEqual(await posted(page, 'answer'), [{ type: 'answer', approvalId: 'a1', optionId: 'allow_once' }]);
    await page.getByText('Allowed').waitFor();
  });

  test('a tried command shows what it changed, and can be applied or run', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, { kind: 'tool_call', call: TRIED_APPROVAL.call }])]);
    await say(page, [asked(TRIED_APPROVAL)]);
    await bare.card();
    for (const text of ['old line', 'new line', 'This deletes the file.', '2 files written']) {
      await page.locator('.card.approval').getByText(text, { exact: true }).waitFor();
    }
    await page.getByText('It did not see the unsaved text of src/cart.ts.').waitFor();
    assert.equal(await button('Apply these changes').count(), 1);
    await button('More ways to allow').click();
    await page.getByRole('menuitem', { name: 'Run it for real' }).click();
    assert.deepEqual(await posted(page, 'answer'), [{ type: 'answer', approvalId: 'a3', optionId: 'allow_real' }]);
  });

  test('17. bidi characters are displayed escaped', async () => {
    const { page } = bare;
    const command = 'echo \u202etxt.exe';
    const title = `Run ${command}`;
    const request = {
      ...COMMAND_APPROVAL,
      call: { ...COMMAND_APPROVAL.call, title },
      preview: { kind: 'command' as const, command, cwd: '/', parsed: [] },
    };
    await bare.open([...OPEN, updates([STARTED, { kind: 'tool_call', call: request.call }]), asked(request)]);
    const card = page.locator('.card.approval');
    await card.waitFor();
    assert.match((await card.textContent()) ?? '', /Run echo \\u\{202e\}txt\.exe\?.*echo \\u\{202e\}txt\.exe/);
    // The characters must not reach the row after the call ran, or any other part of the page.
    await say(page, [
      { type: 'resolved', resolved: { approvalId: 'a2', sessionId: 's1', optionId: 'allow_once', by: 'client' } },
      updates([{ kind: 'tool_call', call: call('c9', title, 'execute', 'completed', { args: { command } }) }], 3),
    ]);
    await page.locator('.call.completed .row-head').click();
    await page.locator('.call .arguments').waitFor();
    assert.doesNotMatch((await page.locator('body').textContent()) ?? '', /\u202e/);
  });

  test('a card disappears when another client answers', async () => {
    const { page } = bare;
    await bare.open(WAITING);
    await page.locator('.card.approval').waitFor();
    await say(page, [
      { type: 'resolved', resolved: { approvalId: 'a1', sessionId: 's1', optionId: 'reject', by: 'lens' } },
    ]);
    assert.equal(await page.locator('.card.approval').count(), 0);
  });

  test('arrow keys move in the Allow menu, and Esc closes it', async () => {
    const { page } = bare;
    await bare.open(WAITING);
    await bare.card();
    await button('More ways to allow').focus();
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Once' }).focus();
    await page.keyboard.press('ArrowDown');
    assert.match((await page.evaluate(() => document.activeElement?.textContent)) ?? '', /^For this session/);
    await page.keyboard.press('Escape');
    await page.locator('.card-menu').waitFor({ state: 'detached' });
    assert.deepEqual(await posted(page, 'answer'), []);
  });

  test('a rule is shown with examples that it does not match, and can be changed before it is saved', async () => {
    const { page } = bare;
    await bare.open(COMMAND);
    await bare.card();
    await button('More ways to allow').click();
    await page.getByRole('menuitem', { name: /Always…/ }).click();
    await page.locator('.rule-words', { hasText: 'exactly npm test && npm run lint, in this workspace' }).waitFor();
    await page.locator('.rule-examples', { hasText: 'Does not match: npm test && npm run lint --verbose' }).waitFor();
    await page.getByLabel('Rule').fill('npm test *');
    await page.getByLabel('Scope').selectOption('session');
    assert.deepEqual(await posted(page, 'answer'), []);
    await button('Save rule and allow').click();
    assert.deepEqual(await posted(page, 'allowByRule'), [
      {
        type: 'allowByRule',
        approvalId: 'a2',
        rule: { tool: 'bash', pattern: 'npm test *', scope: 'session' },
      },
    ]);
    await say(page, [{ type: 'answerRefused', approvalId: 'a2', message: 'it is too long' }]);
    await page.getByText('it is too long').waitFor();
    await button('Save rule and allow').waitFor();
  });

  test('an unchanged rule is sent as the offered option', async () => {
    const { page } = bare;
    await bare.open(WAITING);
    await bare.card();
    await button('More ways to allow').click();
    await page.getByRole('menuitem', { name: /Always…/ }).click();
    await button('Save rule and allow').click();
    assert.deepEqual(await posted(page, 'answer'), [{ type: 'answer', approvalId: 'a1', optionId: 'allow_always' }]);
  });

  test('a command can be changed in its card', async () => {
    const { page } = bare;
    await bare.open(COMMAND);
    await bare.card();
    await button('Change…').click();
    await page.locator('.code-input').fill('npm test');
    await button('Allow with my changes').click();
    assert.deepEqual((await posted(page, 'answer'))[0]?.args, { command: 'npm test' });
  });

  test('Never allow shows its rule and sends the feedback', async () => {
    const { page } = bare;
    await bare.open(COMMAND);
    await bare.card();
    await button('Deny…').click();
    await page.getByText('“Never allow” saves a rule: Never npm test').waitFor();
    await page.keyboard.type('Run only one test.');
    await button('Never allow').click();
    assert.deepEqual(await posted(page, 'answer'), [
      { type: 'answer', approvalId: 'a2', optionId: 'reject_always', feedback: 'Run only one test.' },
    ]);
  });

  test('Deny… sends the feedback, and Esc goes back without an answer', async () => {
    const { page } = bare;
    await bare.open(WAITING);
    await bare.card();
    await button('Deny…').click();
    await page.locator('.card textarea:focus').waitFor();
    await page.keyboard.press('Escape');
    await button('Deny…').click();
    await page.locator('.card textarea:focus').waitFor();
    assert.deepEqual(await posted(page, 'answer'), []);
    await page.keyboard.type('Use the helper');
    await page.keyboard.press('Enter');
    assert.deepEqual(await posted(page, 'answer'), [
      { type: 'answer', approvalId: 'a1', optionId: 'reject', feedback: 'Use the helper' },
    ]);
  });

  const WAITING_COMMANDS = (...commands: string[]): readonly ToView[] => {
    const requests = commands.map((command, n) => ({
      ...COMMAND_APPROVAL,
      approvalId: `many${n}`,
      call: call(`c${n}`, `Run ${command.slice(0, 40)}`, 'execute', 'awaiting_approval', { args: { command } }),
      preview: { kind: 'command' as const, command, cwd: '/', parsed: [] },
    }));
    const rows = requests.map(({ call: one }) => ({ kind: 'tool_call' as const, call: one }));
    return [...OPEN, updates([STARTED, ...rows]), ...requests.map(asked)];
  };

  test('one card is shown, the oldest first, and the others are listed once, as a whole', async () => {
    const { page } = bare;
    const long = `echo ${'x'.repeat(120)} > important.txt`;
    await bare.open(WAITING_COMMANDS('touch one', long, 'touch three'));
    await bare.card();
    assert.deepEqual(
      await page
        .locator('.card.approval')
        .evaluateAll((cards) => cards.map((card) => card.getAttribute('data-approval'))),
      ['many0'],
    );
    assert.deepEqual(await page.locator('.others li code').allTextContents(), [long, 'touch three']);
    for (const code of await page.locator('.others li code').all())
      assert.ok(
        await code.evaluate((node) => node.scrollWidth <= (node.parentElement?.clientWidth ?? 0) + 1),
        'not cut',
      );
    const allow = page.getByRole('button', { name: 'Allow 3 commands' });
    await page.waitForFunction(() => !document.querySelector('.others .button:disabled'));
    await allow.click();
    assert.deepEqual(
      (await posted(page, 'answer')).map(({ approvalId, optionId }) => [approvalId, optionId]),
      [0, 1, 2].map((n) => [`many${n}`, 'allow_once']),
    );
  });

  test('commands are not allowed together if one of them is too long to be listed', async () => {
    const { page } = bare;
    await bare.open(WAITING_COMMANDS('touch one', `echo ${'x'.repeat(500)}`));
    await bare.card();
    await page.locator('.others li').waitFor();
    assert.equal(await page.getByRole('button', { name: /Allow \d commands/ }).count(), 0);
  });

  test('all edits of the turn can be allowed from the menu', async () => {
    const { page } = bare;
    await bare.open(WAITING);
    await bare.card();
    await button('More ways to allow').click();
    await page.getByRole('menuitem', { name: /All edits of this turn/ }).click();
    assert.deepEqual(await posted(page, 'allowTurnEdits'), [{ type: 'allowTurnEdits', approvalId: 'a1' }]);
  });

  test('a rule for a path can be one for its folder', async () => {
    const { page } = bare;
    const options = EDIT_APPROVAL.options.map((one) => ({ ...one, ...(one.pattern && { pattern: 'src/auth.ts' }) }));
    await bare.open([...WAITING.slice(0, -1), asked({ ...EDIT_APPROVAL, options })]);
    await bare.card();
    await button('More ways to allow').click();
    await page.getByRole('menuitem', { name: /Always…/ }).click();
    await page.getByRole('button', { name: 'Its folder: src/**' }).click();
    await button('Save rule and allow').click();
    assert.equal((await posted(page, 'allowByRule'))[0]?.rule.pattern, 'src/**');
  });

  test('a destructive command looks like one and says what it does', async () => {
    const { page } = bare;
    const preview = { kind: 'command' as const, command: 'rm -rf build', cwd: '/', parsed: ['rm -rf build'] };
    const args = { command: 'rm -rf build', background: true, timeout: 5 };
    const request = { ...COMMAND_APPROVAL, preview, call: { ...COMMAND_APPROVAL.call, args } };
    await bare.open([...COMMAND.slice(0, -1), asked(request)]);
    await page.locator('.card.destructive .card-warning', { hasText: 'Deletes build and everything in it.' }).waitFor();
    await page.locator('.preview-command', { hasText: 'in the background · for at most 5s' }).waitFor();
    await page.locator('.button.danger', { hasText: 'Ctrl+K A' }).waitFor();
    await bare.open([...COMMAND]);
    await bare.card();
    assert.equal(await page.locator('.card.destructive').count(), 0);
  });

  test('Shift+Tab in the composer reaches the card’s Allow, and never Deny first', async () => {
    const { page } = bare;
    await bare.open(SCENES.group ?? []);
    await bare.card();
    await bare.prompt().focus();
    await page.keyboard.press('Shift+Tab');
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Allow');
  });

  test('a call that did not need approval has a row and no card', async () => {
    const { page } = bare;
    const approval = { decision: 'allow' as const, by: 'rule' as const, reason: '', amended: false };
    await bare.open([
      ...OPEN,
      updates([STARTED, { kind: 'tool_call', call: call('c1', 'Run ls', 'execute', 'completed', { approval }) }]),
    ]);
    await page.locator('.call.completed', { hasText: 'Ran ls' }).waitFor();
    assert.equal(await page.locator('.card, .dock-line').count(), 0);
    assert.deepEqual(await posted(page, 'cards'), []);
  });

  test('a requested approval becomes the card and gets the focus, even if it arrives later', async () => {
    const { page } = bare;
    const isFocused = (id: string) =>
      page.waitForFunction((one) => (document.activeElement as HTMLElement)?.dataset.approval === one, id);
    await bare.open([...OPEN, { type: 'reveal', approvalId: 'many2' }]);
    await say(page, WAITING_COMMANDS('touch one', 'touch two', 'touch three').slice(OPEN.length));
    await isFocused('many2');
    await page.getByRole('button', { name: 'Show card: Run touch two?' }).click();
    await isFocused('many1');
    // The card itself has the focus, not a button: keys do not answer it, and Tab moves to its content.
    await bare.card();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Space');
    assert.deepEqual(await posted(page, 'answer'), []);
  });

  test('a button opens the session of another approval', async () => {
    const { page } = bare;
    await bare.open([...OPEN, asked({ ...EDIT_APPROVAL, sessionId: 'other' })]);
    await page.getByText('1 approval waiting in another session').waitFor();
    await page.locator('.dock').getByRole('button', { name: 'Show' }).click();
    assert.deepEqual(await posted(page, 'command'), [{ type: 'command', command: 'otherWaiting' }]);
    // While a session is opened again, its own approvals are not those of another session.
    await bare.open([...OPEN, asked({ ...EDIT_APPROVAL, sessionId: 's1' })]);
    await say(page, [{ type: 'opening', sessionId: 's1', draft: { text: '', chips: [], caret: 0 }, mode: 'ask' }]);
    assert.equal(await page.getByText('waiting in another session').count(), 0);
  });

  test('the shortcut for the next approval cycles, and the host is told which card has the focus', async () => {
    const { page } = bare;
    await bare.open(SCENES.waiting ?? []);
    const reached: (string | null)[] = [];
    for (let press = 0; press < 3; press += 1) {
      await say(page, [{ type: 'reveal', approvalId: null }]);
      const before = reached.at(-1) ?? '';
      await page.waitForFunction(
        (last) => ![undefined, last].includes((document.activeElement as HTMLElement).dataset.approval),
        before,
      );
      reached.push(await page.evaluate(() => (document.activeElement as HTMLElement).dataset.approval ?? null));
    }
    assert.deepEqual(reached, ['a2', 'a1', 'a2']);
    await page.waitForFunction(() => window.posted.findLast((one) => one.type === 'cards')?.current === 'a2');
  });

  test('after an answer by keyboard the focus moves to the next card, and after the last one to the composer', async () => {
    const { page } = bare;
    await bare.open(SCENES.command ?? []);
    await bare.card();
    await page
      .locator('[data-approval="a2"][data-accepts-input]')
      .getByRole('button', { name: 'Allow', exact: true })
      .focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.activeElement?.matches('[data-approval="a1"]'));
    await page.locator('[data-approval="a1"][data-accepts-input]').getByRole('button', { name: 'Deny…' }).click();
    await page.locator('.card textarea:focus').waitFor();
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.activeElement?.id === 'prompt');
    assert.deepEqual(
      (await posted(page, 'answer')).map(({ approvalId, optionId }) => [approvalId, optionId]),
      [
        ['a2', 'allow_once'],
        ['a1', 'reject'],
      ],
    );
  });

  test('after an answer in the dock the focus moves as well', async () => {
    const { page } = bare;
    await bare.open(SCENES.group ?? []);
    await page.waitForFunction(() => document.querySelector('.others .dock-line .button:not(:disabled)'));
    await page.getByRole('button', { name: 'Allow 2 commands' }).focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.activeElement?.id === 'prompt');
    await bare.open(SCENES.ask ?? []);
    await page.getByRole('button', { name: 'vitest' }).focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.activeElement?.id === 'prompt');
    assert.deepEqual(await posted(page, 'answerAsk'), [{ type: 'answerAsk', id: 'k1', answer: 'vitest' }]);
  });

  test('the title of a card is visible while its buttons are, even in a low view', async () => {
    const { page } = bare;
    for (const scene of ['approval', 'waiting']) {
      await bare.open(SCENES[scene] ?? []);
      await page.setViewportSize({ width: 300, height: 420 });
      await page.locator('.transcript').evaluate((node) => node.scrollTo(0, node.scrollHeight));
      await say(page, []);
      const [title, allow] = await page.evaluate(() => {
        const card = [...document.querySelectorAll('.card.approval')].at(-1);
        const isOnTop = (node: Element | null | undefined) => {
          const at = node?.getBoundingClientRect();
          const found = at && document.elementFromPoint(at.left + at.width / 2, at.top + Math.min(at.height, 20) / 2);
          return !!node && !!found && node.contains(found);
        };
        return [isOnTop(card?.querySelector('.card-title')), isOnTop(card?.querySelector('.card-buttons button'))];
      });
      assert.deepEqual([title, allow], [true, true], scene);
    }
  });

  test('a very long command scrolls inside its card', async () => {
    const { page } = bare;
    const lines = Array.from({ length: 400 }, (_, n) => `line ${n}`).join('\n');
    const preview = { kind: 'command' as const, command: lines, cwd: '/', parsed: [] };
    await bare.open([...COMMAND.slice(0, -1), asked({ ...COMMAND_APPROVAL, preview })]);
    await page.waitForFunction(() => window.posted.findLast((one) => one.type === 'cards')?.current === 'a2');
    const pre = page.locator('.preview-command > pre');
    assert.ok(await pre.evaluate((node) => node.scrollHeight > node.clientHeight));
    assert.match((await pre.textContent()) ?? '', /^line 0\n(.*\n)*line 399$/);
  });

  test('only the fourth command of a kind offers a rule for the session', async () => {
    const { page } = bare;
    const session = { id: 'allow_session' as const, label: 'Allow for this session', matches: [], excludes: [] };
    const nth = (n: number): ApprovalRequest => ({
      ...COMMAND_APPROVAL,
      approvalId: `n${n}`,
      options: [...COMMAND_APPROVAL.options, session],
    });
    const allowed = (n: number): ToView => ({
      type: 'resolved',
      resolved: { approvalId: `n${n}`, sessionId: 's1', optionId: 'allow_once', by: 'user' },
    });
    const row = updates([STARTED, { kind: 'tool_call', call: COMMAND_APPROVAL.call }]);
    await bare.open([...OPEN, row, ...[1, 2].flatMap((n) => [asked(nth(n)), allowed(n)]), asked(nth(3))]);
    await bare.card();
    assert.equal(await page.locator('.card-offer').count(), 0);
    await say(page, [allowed(3), asked(nth(4))]);
    await page.locator('.card-offer', { hasText: 'Allowed 3 times.' }).waitFor();
    await say(page, [allowed(4), asked(nth(5))]);
    await page.locator('[data-approval="n5"]').waitFor();
    assert.equal(await page.locator('.card-offer').count(), 0);
  });

  test('a card shows that its proposal was changed in the diff editor', async () => {
    const { page } = bare;
    await bare.open([...WAITING, { type: 'amended', approvalId: 'a1', amended: true }]);
    await bare.card();
    await page.getByText('You changed this in the diff editor.').waitFor();
    assert.equal(await button('Allow').count(), 0);
    await button('Discard').click();
    assert.deepEqual(await posted(page, 'discardAmended'), [{ type: 'discardAmended', approvalId: 'a1' }]);
    await button('Allow with my changes').click();
    await say(page, [{ type: 'answerRefused', approvalId: 'a1', message: 'They cannot be part of it.' }]);
    await page.getByRole('alert').getByText('They cannot be part of it.').waitFor();
    await say(page, [{ type: 'amended', approvalId: 'a1', amended: false }]);
    await button('Allow').waitFor();
  });

  test('the panels of a card keep its title visible', async () => {
    const { page } = bare;
    await page.setViewportSize({ width: 300, height: 420 });
    await bare.open(SCENES.command ?? []);
    await bare.card();
    await button('More ways to allow').first().click();
    await page.getByRole('menuitem', { name: /Always…/ }).click();
    await page.locator('.rule-words').waitFor();
    const [top, dock] = await page.evaluate(() =>
      ['.card-head', '.dock'].map((one) => document.querySelector(one)?.getBoundingClientRect().top ?? 0),
    );
    assert.ok((top ?? 0) >= (dock ?? 0) - 1, `the card’s title is at ${top}, the dock at ${dock}`);
  });
});
