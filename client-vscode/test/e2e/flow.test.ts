/** The way of a first user through the whole thing, in a real VS Code. Numbers name points of the UX checklist. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';
import { AUTH, type World } from './support/world.ts';

const FIXED = '    return token is not None and token.valid';
const EDIT = {
  name: 'update_file',
  args: {
    path: 'src/auth.py',
    edits: [{ old_string: '    if token:\n        return True\n    return False', new_string: FIXED }],
  },
};

const ask = async (world: World, text: string) => {
  await world.workbench.chat.locator('#prompt').fill(text);
  await world.workbench.chat.locator('#prompt').press('Enter');
};
const ended = (world: World, n: number) =>
  world.workbench.chat
    .locator('.turn-end')
    .nth(n - 1)
    .waitFor();

story('a first user', {}, (step) => {
  step('first run: the chat opens beside the editor', async (world) => {
    const { chat } = world.workbench;
    await world.workbench.open(world.folder);
    await world.workbench.openFile('auth.py');
    await world.workbench.command('Pilotfish: Open Chat');
    await chat.getByText('What should we change?').waitFor();
    await world.workbench.statusItem.filter({ hasText: 'Ask first' }).waitFor();
    await world.workbench.shot('01-first-run');
  });

  step('a prompt streams its answer (32: the bubble is there at once)', async (world) => {
    const { chat } = world.workbench;
    await world.provider.script({
      thoughts: 'A short answer will do.',
      text: [
        '# Auth\n\n',
        'The module holds a `Token` ',
        'and two functions:\n\n',
        '- `is_logged_in`\n',
        '- `logout`\n\n',
        '```python\n',
        'token.valid = False\n',
        '```\n',
      ],
      delay: 0.05,
      usage: { input: 1200, output: 90 },
    });
    const sent = Date.now();
    await ask(world, 'Explain src/auth.py');
    await chat.locator('.prompt').waitFor();
    assert.ok(Date.now() - sent < 2000);
    await chat.locator('.markdown h1').waitFor();
    await world.workbench.shot('02-streaming');
    await ended(world, 1);
    assert.equal(await chat.locator('.markdown li').count(), 2);
    await world.workbench.shot('03-answer');
  });

  step('an approval is a notification when the chat is hidden (11, 12)', async (world) => {
    const { page } = world.workbench;
    await world.provider.script(
      { calls: [EDIT], wait: 1.5 },
      { text: 'Done: an invalid token is no login any more.', usage: { input: 2400, output: 60 } },
    );
    await ask(world, 'Fix the login check');
    await page.keyboard.press('Control+Alt+B');
    const toast = world.workbench.toast('Edit src/auth.py?');
    await toast.waitFor();
    await page.locator('.notification-toast.notification-fade-in-done').first().waitFor();
    await world.workbench.statusItem.filter({ hasText: '1 waiting' }).waitFor();
    await world.workbench.shot('04-notification');
    await toast.hover();
    await toast.locator('.codicon-notifications-clear, .codicon-close').first().click();
    await toast.waitFor({ state: 'detached' });
    await world.workbench.statusItem.filter({ hasText: '1 waiting' }).waitFor();
    assert.equal(await world.read('src/auth.py'), AUTH);
  });

  step('the card shows the edit, and the diff editor on request (7, 8)', async (world) => {
    const { chat, page } = world.workbench;
    await world.workbench.command('Pilotfish: Show Next Approval');
    await chat.locator('.card.approval').waitFor();
    await page.waitForTimeout(600);
    assert.equal(await page.locator('.tab', { hasText: 'proposed change' }).count(), 0);
    await world.workbench.shot('05-card');
    await chat.getByRole('button', { name: 'Open diff' }).click();
    await page.locator('.tab', { hasText: 'proposed change' }).waitFor();
    await page.locator('.monaco-diff-editor .line-insert, .monaco-diff-editor .char-insert').first().waitFor();
    await page.waitForTimeout(800);
    await world.workbench.shot('06-diff');
  });

  step('allowed: the file changes through its buffer, and Ctrl+Z takes it back (9)', async (world) => {
    const { chat, page } = world.workbench;
    await chat.getByRole('button', { name: 'Allow', exact: true }).click();
    await ended(world, 2);
    assert.equal(await chat.locator('.card.approval').count(), 0);
    await world.workbench.statusItem.filter({ hasText: 'scripted' }).waitFor();
    await page.locator('.tab', { hasText: 'proposed change' }).waitFor({ state: 'detached' });
    const line = page.locator('.monaco-editor .view-line', { hasText: 'token is not None' });
    await line.first().waitFor();
    await world.workbench.shot('07-allowed');
    await line.first().click();
    await page.keyboard.press('Control+Z');
    await page.locator('.monaco-editor .view-line', { hasText: 'if token' }).first().waitFor();
    await world.workbench.shot('08-undone-by-ctrl-z');
    await page.keyboard.press('Control+Shift+Z');
    await line.first().waitFor();
  });

  step('undo and redo of the turn (37)', async (world) => {
    const { chat, page } = world.workbench;
    await chat.getByRole('button', { name: 'Undo turn' }).click();
    await chat.getByText('Turn undone').waitFor();
    await page.locator('.monaco-editor .view-line', { hasText: 'if token' }).first().waitFor();
    await world.workbench.shot('09-turn-undone');
    await chat.getByRole('button', { name: 'Redo' }).click();
    await chat.getByRole('button', { name: 'Undo turn' }).waitFor();
    await page.locator('.monaco-editor .view-line', { hasText: 'token is not None' }).first().waitFor();
  });

  step('a denial with feedback reaches the model (20)', async (world) => {
    const { chat, page } = world.workbench;
    await world.provider.script(
      { calls: [{ name: 'bash', args: { command: 'rm -r build' } }] },
      { text: 'Then I leave it.' },
    );
    await ask(world, 'Clean up');
    await chat.locator('.card.approval').waitFor();
    await page.waitForTimeout(600);
    await world.workbench.shot('10-command');
    await chat.getByRole('button', { name: 'Deny…' }).click();
    await chat.locator('.card textarea').fill('Use make clean');
    await world.workbench.shot('11-deny');
    await chat.locator('.card textarea').press('Enter');
    await ended(world, 3);
    assert.match((await world.provider.requests()).at(-1) ?? '', /Use make clean/);
    await chat.locator('.call.denied').waitFor();
    await world.workbench.shot('12-denied');
  });

  step('stop mid-stream leaves a receipt (33)', async (world) => {
    const { chat } = world.workbench;
    await world.provider.script({ text: 'one two three four ', times: 5000, delay: 0.05 });
    await ask(world, 'Count');
    await chat.getByText('one two three').first().waitFor();
    const pressed = Date.now();
    await chat.getByRole('button', { name: 'Stop' }).click();
    await chat
      .getByText(/Stopping…|Stopped/)
      .first()
      .waitFor();
    assert.ok(Date.now() - pressed < 1500);
    await chat.locator('.ending', { hasText: 'Stopped' }).waitFor();
    await world.workbench.shot('13-stopped');
  });

  step('a reload brings the session back', async (world) => {
    const { chat, page } = world.workbench;
    await page.reload();
    await world.workbench.statusItem.waitFor({ timeout: 60_000 });
    await chat.locator('.ending', { hasText: 'Stopped' }).waitFor();
    assert.equal(await chat.locator('.turn').count(), 4);
    await world.workbench.shot('14-reloaded');
  });

  step('a reload while a question waits loses nothing: it is asked again, or one press continues', async (world) => {
    const { chat, page } = world.workbench;
    await world.provider.script(
      { calls: [{ name: 'bash', args: { command: 'touch again.txt' } }] },
      { text: 'It is there.' },
      { text: 'It is there.' },
    );
    await ask(world, 'Make a file');
    await chat.locator('.card.approval').waitFor();
    await page.reload();
    await world.workbench.statusItem.waitFor({ timeout: 60_000 });
    const allow = chat.getByRole('button', { name: 'Allow', exact: true });
    const goOn = chat.getByRole('button', { name: 'Continue' });
    await allow.or(goOn).first().waitFor();
    await page.waitForTimeout(700);
    await world.workbench.shot('15-reloaded-while-waiting');
    await allow.or(goOn).first().click();
    await chat.getByText('It is there.').waitFor();
  });

  step(
    'sessions are listed, renamed, and left for a new one (30, 31: drafts stay with their session)',
    async (world) => {
      const { chat, page } = world.workbench;
      await chat.locator('#prompt').fill('a draft of the first session');
      await page.waitForTimeout(600);
      await world.workbench.command('Pilotfish: New Session');
      await chat.getByText('What should we change?').waitFor();
      assert.equal(await chat.locator('#prompt').inputValue(), '');
      await page.locator('.pane-header', { hasText: 'Sessions' }).click();
      const row = page.locator('.monaco-list-row', { hasText: 'Explain src/auth.py' }).first();
      await row.waitFor();
      await world.workbench.shot('16-sessions');
      await row.click();
      await chat.locator('.turn').first().waitFor();
      assert.equal(await chat.locator('#prompt').inputValue(), 'a draft of the first session');
      await chat.locator('#prompt').fill('');
    },
  );
});
