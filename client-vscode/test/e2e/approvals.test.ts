/** Approvals in every part of the UI, in a real VS Code. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { held, type Reply } from './support/provider.ts';
import { story } from './support/story.ts';
import { AUTH, type World } from './support/world.ts';

const edit = (to: string): Reply => ({
  calls: [
    {
      name: 'update_file',
      args: { path: 'src/auth.py', edits: [{ old_string: '    token.valid = False', new_string: to }] },
    },
  ],
});
const command = (...texts: string[]): Reply => ({
  calls: texts.map((text) => ({ name: 'bash', args: { command: text } })),
});
/** Longer than notifications are collected. Only used before asserting that nothing was shown. */
const QUIET = 2000;

/** Sends a prompt whose reply is held back until `then` is done. */
async function askThen({ provider, workbench }: World, text: string, replies: Reply[], then: () => Promise<unknown>) {
  const [first, ...rest] = replies;
  if (!first) throw new Error('no reply');
  await provider.hold();
  await provider.script(held(first), ...rest);
  await workbench.ask(text);
  await workbench.chat.locator('.working').waitFor();
  await then();
  await provider.release();
}

story('approvals', { settings: { 'pilotfish.maxParallelTools': 8 } }, (step) => {
  step('7. an approval never moves the focus', async (world) => {
    const { workbench } = world;
    const { page } = workbench;
    await workbench.open(world.folder);
    await workbench.openFile('README.md');
    await workbench.showChat();
    await askThen(world, 'Forget the token', [edit('    token.valid = None'), { text: 'As you wish.' }], async () => {
      await workbench.line('A small shop').click();
      await page.keyboard.press('End');
    });
    await workbench.card.waitFor();
    await page.keyboard.type(' Mine.');
    await workbench.line('A small shop. Mine.').waitFor();
    assert.equal(await workbench.card.count(), 1);
  });

  step('13. a visible card raises no notification', async ({ workbench }) => {
    await workbench.page.waitForTimeout(QUIET);
    assert.deepEqual((await workbench.seen()).toasts, []);
  });

  step('9. an answer in the code lens clears the approval everywhere', async (world) => {
    const { workbench } = world;
    await workbench.openFile('auth.py');
    const deny = workbench.lens.filter({ hasText: 'Deny' });
    await deny.waitFor();
    await workbench.badge.filter({ hasText: '1' }).waitFor();
    await workbench.status('1 waiting');
    await workbench.shot('20-lens');
    await deny.click();
    await workbench.chat.locator('.card.approval').waitFor({ state: 'detached' });
    await workbench.lens.first().waitFor({ state: 'detached' });
    await workbench.badge.waitFor({ state: 'hidden' });
    await workbench.status('scripted');
    await workbench.ended(1);
    assert.equal(await world.read('src/auth.py'), AUTH);
  });

  step('12. with the chat hidden, a badge and a notification appear', async (world) => {
    const { workbench } = world;
    const header = workbench.page.locator('.part.auxiliarybar .pane-header', { hasText: 'Chat' });
    await askThen(world, 'Again', [edit('    token.valid = 0'), { text: 'Left as it was.' }], async () => {
      await header.click();
      await workbench.page.locator('.part.auxiliarybar .pane-header.expanded', { hasText: 'Chat' }).waitFor({
        state: 'detached',
      });
    });
    await workbench.restingToast('Edit src/auth.py?');
    await workbench.badge.filter({ hasText: '1' }).waitFor();
    await workbench.shot('21-hidden');
  });

  step('11. a dismissed notification leaves the approval pending', async (world) => {
    const { workbench } = world;
    const toast = workbench.toast('Edit src/auth.py?');
    const requests = (await world.provider.requests()).length;
    await toast.hover();
    await toast.locator('.codicon-notifications-clear, .codicon-close').first().click();
    await toast.waitFor({ state: 'detached' });
    await workbench.page.waitForTimeout(QUIET);
    await workbench.status('1 waiting');
    await workbench.badge.filter({ hasText: '1' }).waitFor();
    assert.equal((await world.provider.requests()).length, requests);
    await workbench.showChat();
    await workbench.card.waitFor();
    await workbench.button('Deny…').click();
    await workbench.button('Deny').click();
    await workbench.ended(2);
    assert.equal(await world.read('src/auth.py'), AUTH);
  });

  step('10. a notification button that is pressed too late reports that', async (world) => {
    const { workbench } = world;
    await askThen(world, 'Once more', [edit('    token.valid = 1'), { text: 'Left again.' }], () =>
      workbench.hideChat(),
    );
    const toast = await workbench.restingToast('Edit src/auth.py?');
    await workbench.lens.filter({ hasText: 'Deny' }).click();
    await workbench.status('1 finished');
    assert.equal(await toast.locator('.monaco-button', { hasText: 'Allow' }).count(), 0, 'the title is not the edit');
    await toast.locator('.monaco-button', { hasText: 'Deny' }).click();
    await workbench.toast('Already answered').waitFor();
    await workbench.command('Notifications: Clear All Notifications');
    await workbench.showChat();
    await workbench.ended(3);
    assert.equal(await workbench.chat.locator('.call.denied').count(), 3);
    assert.equal(await world.read('src/auth.py'), AUTH);
  });

  step('16. the notification of a long command cannot allow it', async (world) => {
    const { workbench } = world;
    const long = command(`touch ${'very-long-name-'.repeat(12)}.txt`);
    await askThen(world, 'Long', [long, { text: 'Fine.' }], () => workbench.hideChat());
    const toast = await workbench.restingToast('Run touch very-long');
    const buttons = await toast.locator('.monaco-button').allTextContents();
    assert.deepEqual(buttons.map((text) => text.trim()).filter(Boolean), ['Show', 'Deny']);
    await workbench.shot('22-long-command');
    await toast.locator('.monaco-button', { hasText: 'Deny' }).click();
    await workbench.showChat();
    await workbench.ended(4);
  });

  step('14. five approvals at once are one notification', async (world) => {
    const { workbench } = world;
    // For real: a command that is tried out first asks when the one before it has ended.
    const touch = (n: number) => ({ name: 'bash', args: { command: `touch five-${n}.txt`, for_real: true } });
    const five = { calls: [1, 2, 3, 4, 5].map(touch) };
    await workbench.forgetSeen();
    await askThen(world, 'Five', [five], () => workbench.hideChat());
    const toast = await workbench.restingToast('5 approvals waiting');
    await workbench.page.waitForTimeout(QUIET);
    assert.deepEqual((await workbench.seen()).toasts, ['Pilotfish: 5 approvals waiting']);
    await workbench.shot('23-five');
    await toast.locator('.monaco-button', { hasText: 'Review' }).click();
    await workbench.card.waitFor();
    await workbench.chat.locator('.card.approval', { hasText: '1 of 5' }).waitFor();
    assert.equal(await workbench.chat.locator('.card.approval').count(), 1, 'one card at a time');
    assert.equal(await workbench.chat.locator('.others li').count(), 4);
    await workbench.button('Allow 5 commands').waitFor();
    await workbench.shot('24-group');
    await workbench.command('Pilotfish: Stop');
    await workbench.ended(5);
    await workbench.status('scripted');
    assert.equal(await workbench.chat.locator('.card.approval').count(), 0);
  });

  step('the keyboard shortcut shows a hidden card first, and the second press answers', async (world) => {
    const { workbench } = world;
    const { page } = workbench;
    const chord = async () => {
      await page.keyboard.press('Control+K');
      await page.keyboard.press('a');
    };
    await askThen(world, 'By chord', [command('touch by-chord.txt'), { text: 'Touched.' }], () => workbench.hideChat());
    await workbench.status('1 waiting');
    await workbench.line('from dataclasses').click();
    await chord();
    await workbench.card.waitFor();
    await page.waitForTimeout(QUIET);
    assert.equal(await workbench.card.count(), 1, 'the first press only shows it');
    await chord();
    await workbench.ended(6);
    assert.equal(await world.read('by-chord.txt'), '');
  });

  step('the diff editor can deny', async (world) => {
    const { workbench } = world;
    await world.provider.script(edit('    token.valid = 43'), { text: 'As you wish.' });
    await workbench.ask('Set it to 43');
    await workbench.card.waitFor();
    await workbench.button('Open diff').click();
    await workbench.page.locator('.tab', { hasText: 'proposed change' }).waitFor();
    await workbench.page.locator('.editor-actions [aria-label^="Deny"]').first().click();
    await workbench.ended(7);
    assert.doesNotMatch(await world.read('src/auth.py'), /43/);
  });

  step('Change… opens the diff, and the changed version is applied', async (world) => {
    const { workbench } = world;
    const { page } = workbench;
    await world.provider.script(edit('    token.valid = 42'), { text: 'With your change.' });
    await workbench.ask('Set it to 42');
    await workbench.card.waitFor();
    await workbench.button('Change…').click();
    await page.locator('.tab.active', { hasText: 'proposed change' }).waitFor();
    const line = page.locator('.monaco-diff-editor .editor.modified .view-line', { hasText: 'token.valid = 42' });
    await line.click();
    await page.keyboard.press('End');
    await page.keyboard.type('  # mine');
    await page.locator('.monaco-diff-editor .editor.modified .view-line', { hasText: '# mine' }).waitFor();
    await workbench.chat.getByText('You changed this in the diff editor.').waitFor();
    await workbench.shot('25-amend');
    await workbench.button('Allow with my changes').click();
    await workbench.ended(8);
    await workbench.openFile('auth.py');
    await workbench.line('# mine').waitFor();
    await workbench.shot('26-amended');
    assert.match((await world.provider.requests()).at(-1) ?? '', /# mine/);
    await workbench.chat.locator('.call.completed', { hasText: 'Edited src/auth.py' }).last().waitFor();
  });

  step('18. Always… shows the rule before saving it', async (world) => {
    const { workbench } = world;
    await world.provider.script(command('touch one.txt'), { text: 'One.' });
    await workbench.ask('Touch one');
    await workbench.card.waitFor();
    await workbench.button('More ways to allow').click();
    await workbench.chat.getByRole('menuitem', { name: /Always…/ }).click();
    await workbench.chat.locator('.rule-words', { hasText: 'exactly touch one.txt, in this workspace' }).waitFor();
    await workbench.chat.locator('.rule-examples', { hasText: 'Does not match: touch one.txt --verbose' }).waitFor();
    assert.doesNotMatch(await world.config(), /touch one/);
    await workbench.shot('27-rule');
    await workbench.button('Save rule and allow').click();
    await workbench.ended(9);
    assert.match(await world.config(), /touch one\.txt/);
  });

  step('15. a call that a rule allows shows no notification', async (world) => {
    const { workbench } = world;
    await workbench.forgetSeen();
    await askThen(world, 'Touch it again', [command('touch one.txt'), { text: 'One again.' }], async () => {
      await workbench.hideChat();
    });
    const count = (await world.provider.requests()).length;
    while ((await world.provider.requests()).length === count) await workbench.page.waitForTimeout(100);
    await workbench.page.waitForTimeout(QUIET);
    const { toasts, statuses } = await workbench.seen();
    assert.deepEqual(toasts, []);
    assert.deepEqual(
      statuses.filter((text) => text.includes('waiting')),
      [],
    );
    await workbench.showChat();
    await workbench.ended(10);
    assert.equal(await workbench.badge.filter({ visible: true }).count(), 0);
    await workbench.chat
      .getByText(/1 by rule/)
      .last()
      .waitFor();
  });

  step('19. a && b needs both allowed', async (world) => {
    const { workbench } = world;
    await world.provider.script(command('touch one.txt && rm README.md'), { text: 'Not both.' });
    await workbench.ask('Touch and remove');
    await workbench.card.waitFor();
    assert.equal(await workbench.chat.locator('.parsed li').count(), 3, 'both commands, and that they were tried');
    await workbench.button('Deny…').click();
    await workbench.button('Deny').click();
    await workbench.ended(11);
    assert.match(await world.read('README.md'), /Shop/);
  });

  step('a rule that was changed in the card is saved as changed', async (world) => {
    const { workbench } = world;
    await world.provider.script(command('touch two.txt'), { text: 'Two.' }, command('touch three.txt'), {
      text: 'Three.',
    });
    await workbench.ask('Touch two');
    await workbench.card.waitFor();
    await workbench.button('More ways to allow').click();
    await workbench.chat.getByRole('menuitem', { name: /Always…/ }).click();
    await workbench.chat.getByLabel('Rule').fill('touch *');
    await workbench.chat.getByLabel('Scope').selectOption('session');
    await workbench.button('Save rule and allow').click();
    await workbench.ended(12);
    await workbench.ask('Touch three');
    await workbench.ended(13);
    assert.equal(await world.read('three.txt'), '');
    assert.doesNotMatch(await world.config(), /touch \*/);
  });

  step('a link that the agent writes is not a link in its notification', async (world) => {
    const { workbench } = world;
    const question = 'Sign in: [Sign in](command:workbench.action.files.newUntitledFile) $(check) or not?';
    const ask: Reply = { calls: [{ name: 'ask_user', args: { question, options: ['[No](command:y)', 'Yes'] } }] };
    await askThen(world, 'Ask me', [ask, { text: 'Thank you.' }], () => workbench.hideChat());
    const toast = await workbench.restingToast('Sign in:');
    assert.equal(await toast.locator('a:not(.monaco-button):not(.action-label)').count(), 0);
    assert.equal(await toast.locator('.codicon-check').count(), 0);
    await workbench.shot('28-no-link');
    await toast.locator('.monaco-button', { hasText: '[No] (command:y)' }).click();
    await workbench.showChat();
    await workbench.ended(14);
    assert.match((await world.provider.requests()).at(-1) ?? '', /\[No\]\(command:y\)/);
  });
});
