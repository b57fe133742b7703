/** Questions on every surface, in a real VS Code. Numbers name points of the UX checklist. */

import assert from 'node:assert/strict';
import type { Reply } from './support/provider.ts';
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
const command = (text: string, wait = 0): Reply => ({ calls: [{ name: 'bash', args: { command: text } }], wait });
const ask = async (world: World, text: string) => {
  await world.workbench.chat.locator('#prompt').fill(text);
  await world.workbench.chat.locator('#prompt').press('Enter');
};
const ended = (world: World, n: number) =>
  world.workbench.chat
    .locator('.turn-end')
    .nth(n - 1)
    .waitFor();
const hide = (world: World) => world.workbench.page.keyboard.press('Control+Alt+B');

story('approvals', {}, (step) => {
  step('13, 7: a card in sight raises no notification and takes no focus', async (world) => {
    const { chat, page } = world.workbench;
    await world.workbench.open(world.folder);
    await world.workbench.openFile('auth.py');
    await world.workbench.command('Pilotfish: Open Chat');
    await chat.locator('#prompt').waitFor();
    await world.provider.script(edit('    token.valid = None'), { text: 'As you wish.' });
    await ask(world, 'Forget the token');
    await chat.locator('.card.approval').waitFor();
    await page.waitForTimeout(1500);
    assert.equal(await world.workbench.toasts.count(), 0);
    assert.ok(await chat.locator('#prompt').evaluate((node) => node === document.activeElement));
    await page.locator('.badge-content', { hasText: '1' }).first().waitFor();
  });

  step('9: answered on the lens, it is cleared everywhere', async (world) => {
    const { chat, page } = world.workbench;
    const lens = page.locator('.codelens-decoration a', { hasText: 'Deny' });
    await lens.waitFor();
    await world.workbench.shot('20-lens');
    await lens.click();
    await ended(world, 1);
    assert.equal(await chat.locator('.card.approval').count(), 0);
    await lens.waitFor({ state: 'detached' });
    await world.workbench.statusItem.filter({ hasText: 'scripted' }).waitFor();
    assert.equal(await world.read('src/auth.py'), AUTH);
  });

  step('10: a notification pressed too late says so', async (world) => {
    const { chat, page } = world.workbench;
    await world.provider.script({ ...edit('    token.valid = 0'), wait: 1.5 }, { text: 'Left as it was.' });
    await ask(world, 'Again');
    await hide(world);
    const toast = world.workbench.toast('Edit src/auth.py?');
    await toast.waitFor();
    await page.locator('.codelens-decoration a', { hasText: 'Deny' }).click();
    await world.workbench.statusItem.filter({ hasText: 'scripted' }).waitFor();
    await toast.locator('.monaco-button', { hasText: 'Allow' }).click();
    await world.workbench.toast('Already answered').waitFor();
    await world.workbench.command('Notifications: Clear All Notifications');
    await world.workbench.command('Pilotfish: Open Chat');
    await ended(world, 2);
    assert.equal(await chat.locator('.call.denied').count(), 2);
    assert.equal(await world.read('src/auth.py'), AUTH);
  });

  step('16: the notification of a long command cannot allow it', async (world) => {
    const { page } = world.workbench;
    await world.provider.script(command(`touch ${'very-long-name-'.repeat(12)}.txt`, 1.5), { text: 'Fine.' });
    await ask(world, 'Long');
    await hide(world);
    const toast = world.workbench.toast('Run touch very-long');
    await toast.waitFor();
    await page.locator('.notification-toast.notification-fade-in-done').first().waitFor();
    const buttons = await toast.locator('.monaco-button').allTextContents();
    assert.deepEqual(buttons.map((text) => text.trim()).filter(Boolean), ['Show', 'Deny']);
    await world.workbench.shot('21-long-command');
    await toast.locator('.monaco-button', { hasText: 'Deny' }).click();
    await world.workbench.command('Pilotfish: Open Chat');
    await ended(world, 3);
  });

  step('the chord shows a hidden card first, and answers at the second press', async (world) => {
    const { chat, page } = world.workbench;
    await world.provider.script(command('touch by-chord.txt', 1.5), { text: 'Touched.' });
    await ask(world, 'By chord');
    await hide(world);
    await world.workbench.statusItem.filter({ hasText: '1 waiting' }).waitFor();
    await page.locator('.monaco-editor .view-line').first().click();
    await page.keyboard.press('Control+K');
    await page.keyboard.press('a');
    await chat.locator('.card.approval').waitFor();
    await page.waitForTimeout(1000);
    assert.equal(await chat.locator('.card.approval').count(), 1);
    await page.keyboard.press('Control+K');
    await page.keyboard.press('a');
    await ended(world, 4);
    assert.equal(await world.read('by-chord.txt'), '');
  });

  step('Change… opens the diff, and what is written there is what is done', async (world) => {
    const { chat, page } = world.workbench;
    await world.provider.script(edit('    token.valid = 42'), { text: 'With your change.' });
    await ask(world, 'Set it to 42');
    await chat.locator('.card.approval').waitFor();
    await page.waitForTimeout(700);
    await chat.getByRole('button', { name: 'Change…' }).click();
    await page.locator('.tab.active', { hasText: 'proposed change' }).waitFor();
    const line = page.locator('.monaco-diff-editor .editor.modified .view-line', { hasText: 'token.valid = 42' });
    await line.click();
    await page.keyboard.press('End');
    await page.keyboard.type('  # mine');
    await page.waitForTimeout(300);
    await world.workbench.shot('22-amend');
    await world.workbench.command('Pilotfish: Allow with My Changes');
    await ended(world, 5);
    await world.workbench.openFile('auth.py');
    await page
      .locator('.monaco-editor .view-line', { hasText: '42 # mine' })
      .or(page.locator('.monaco-editor .view-line', { hasText: '# mine' }))
      .first()
      .waitFor();
    await world.workbench.shot('23-amended');
    assert.match((await world.provider.requests()).at(-1) ?? '', /# mine/);
    await chat.locator('.call.completed', { hasText: 'Edit' }).last().waitFor();
  });

  step('18, 19: Always… shows its rule; a chain needs both parts allowed', async (world) => {
    const { chat, page } = world.workbench;
    await world.provider.script(
      command('touch one.txt'),
      { text: 'One.' },
      command('touch one.txt'),
      { text: 'One again.' },
      command('touch one.txt && rm README.md'),
      { text: 'Not both.' },
    );
    await ask(world, 'Touch one');
    await chat.locator('.card.approval').waitFor();
    await page.waitForTimeout(700);
    await chat.getByRole('button', { name: 'More ways to allow' }).click();
    await chat.getByRole('menuitem', { name: /Always…/ }).click();
    await chat.locator('.rule-words').waitFor();
    await world.workbench.shot('24-rule');
    await chat.getByRole('button', { name: 'Save rule and allow' }).click();
    await ended(world, 6);
    await ask(world, 'Touch it again');
    await ended(world, 7);
    await ask(world, 'Touch and remove');
    await chat.locator('.card.approval').waitFor();
    await page.waitForTimeout(700);
    await chat.getByRole('button', { name: 'Deny…' }).click();
    await chat.getByRole('button', { name: 'Deny', exact: true }).click();
    await ended(world, 8);
    assert.match(await world.read('README.md'), /Shop/);
  });
});
