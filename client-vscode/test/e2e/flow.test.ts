/** The first steps of a new user, in a real VS Code. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { held } from './support/provider.ts';
import { story } from './support/story.ts';
import { AUTH } from './support/world.ts';

const FIXED = '    return token is not None and token.valid';
const EDIT = {
  name: 'update_file',
  args: {
    path: 'src/auth.py',
    edits: [{ old_string: '    if token:\n        return True\n    return False', new_string: FIXED }],
  },
};

story('a first user', {}, (step) => {
  step('first run: the chat opens beside the editor', async ({ workbench, folder }) => {
    await workbench.open(folder);
    await workbench.openFile('auth.py');
    await workbench.showChat();
    await workbench.chat.getByText('What should we change?').waitFor();
    await workbench.status('Ask first');
    await workbench.shot('01-first-run');
  });

  step('a prompt streams its answer', async ({ workbench, provider }) => {
    const { chat } = workbench;
    await provider.hold();
    await provider.script({
      parts: [
        { thought: 'A short answer will do.' },
        { text: '# Auth\n\nThe module holds a `Token` and two functions:\n\n- `is_logged_in`\n' },
        { gate: true },
        { text: '- `logout`\n\n```python\ntoken.valid = False\n```\n' },
      ],
      usage: { input: 1200, output: 90 },
    });
    await workbench.ask('Explain src/auth.py');
    await chat.locator('.markdown li', { hasText: 'is_logged_in' }).waitFor();
    assert.equal(await chat.locator('.markdown li').count(), 1, 'what has come is shown before the rest');
    await workbench.shot('02-streaming');
    await provider.release();
    await workbench.ended(1);
    assert.equal(await chat.locator('.markdown li').count(), 2);
    const [bubble, box] = await Promise.all(
      ['.prompt', '.composer-box'].map((selector) => chat.locator(selector).first().boundingBox()),
    );
    assert.ok(bubble && box, 'both are there');
    assert.equal(bubble.x + bubble.width, box.x + box.width, 'the conversation and the composer share their edges');
    await workbench.shot('03-answer');
  });

  step('an approval shows a notification when the chat is hidden', async ({ workbench, provider, read }) => {
    await provider.hold();
    await provider.script(held({ calls: [EDIT] }), {
      text: 'Done: an invalid token is no login any more.',
      usage: { input: 2400, output: 60 },
    });
    await workbench.ask('Fix the login check');
    await workbench.chat.locator('.working').waitFor();
    await workbench.hideChat();
    await provider.release();
    const toast = await workbench.restingToast('Edit src/auth.py?');
    await workbench.status('1 waiting');
    await workbench.shot('04-notification');
    assert.equal(await read('src/auth.py'), AUTH);
    await toast.locator('.monaco-button', { hasText: 'Show' }).click();
    await workbench.card.waitFor();
  });

  step('the diff editor shows the edit on request', async ({ workbench }) => {
    const { page } = workbench;
    await workbench.shot('05-card');
    assert.equal(await workbench.tab('proposed change').count(), 0);
    await workbench.button('Open diff').click();
    await workbench.tab('proposed change').waitFor();
    await page.locator('.monaco-diff-editor .line-insert, .monaco-diff-editor .char-insert').first().waitFor();
    await workbench.shot('06-diff');
  });

  step('an allowed edit changes the buffer, and Ctrl+Z undoes it', async ({ workbench }) => {
    const { page } = workbench;
    await workbench.button('Allow').click();
    await workbench.ended(2);
    assert.equal(await workbench.chat.locator('.card.approval').count(), 0);
    await workbench.status('scripted');
    await workbench.tab('proposed change').waitFor({ state: 'detached' });
    await workbench.line('token is not None').waitFor();
    await workbench.shot('07-allowed');
    await workbench.line('token is not None').click();
    await page.keyboard.press('Control+Z');
    await workbench.line('if token').waitFor();
    await workbench.shot('08-undone-by-ctrl-z');
    await page.keyboard.press('Control+Shift+Z');
    await workbench.line('token is not None').waitFor();
  });

  step('37. redo restores the undone turn', async ({ workbench }) => {
    await workbench.button('Undo turn').click();
    await workbench.chat.getByText('Turn undone, 1 file.').waitFor();
    await workbench.line('if token').waitFor();
    await workbench.shot('09-turn-undone');
    await workbench.button('Redo').click();
    await workbench.button('Undo turn').waitFor();
    await workbench.line('token is not None').waitFor();
    assert.equal(await workbench.line('if token').count(), 0);
  });

  step('8. edits do not open tabs', async ({ workbench, provider, read }) => {
    const before = await workbench.tabs();
    await provider.script(
      {
        calls: [
          {
            name: 'update_file',
            args: { path: 'src/token_store.py', edits: [{ old_string: 'TOKENS = {}', new_string: 'TOKENS = dict()' }] },
          },
          { name: 'write_file', args: { path: 'src/fresh.py', content: 'FRESH = True\n' } },
        ],
      },
      { text: 'Both are there.' },
    );
    await workbench.ask('Two files that are not open');
    for (const name of ['token_store.py', 'fresh.py']) {
      const title = workbench.chat.locator('.card-title', { hasText: name });
      const card = workbench.chat.locator('.card.approval[data-accepts-input]').filter({ has: title });
      await card.waitFor();
      assert.deepEqual(await workbench.tabs(), before);
      await card.getByRole('button', { name: 'Allow', exact: true }).click();
    }
    await workbench.ended(3);
    assert.deepEqual(await workbench.tabs(), before);
    assert.equal(await read('src/token_store.py'), 'TOKENS = dict()\n');
    assert.equal(await read('src/fresh.py'), 'FRESH = True\n');
  });

  step('20. a denial’s feedback reaches the model', async ({ workbench, provider }) => {
    const { chat } = workbench;
    await provider.script(
      { calls: [{ name: 'bash', args: { command: 'rm -r build' } }] },
      { text: 'Then I leave it.' },
    );
    await workbench.ask('Clean up');
    await workbench.card.waitFor();
    await workbench.card.getByText('Deletes build and everything in it.', { exact: true }).waitFor();
    await workbench.shot('10-command');
    await workbench.button('Deny…').click();
    await chat.locator('.card textarea').fill('Use make clean');
    await workbench.shot('11-deny');
    await chat.locator('.card textarea').press('Enter');
    await workbench.ended(4);
    assert.match((await provider.requests()).at(-1) ?? '', /Use make clean/);
    await chat.locator('.call.denied', { hasText: 'Denied: rm -r build' }).waitFor();
    await workbench.shot('12-denied');
  });

  step('33. stop is acknowledged at once, and the summary of the turn follows', async ({ workbench, provider }) => {
    const { chat } = workbench;
    await provider.script({ text: 'one two three four ', times: 50_000, delay: 0.05 });
    await workbench.ask('Count');
    await chat.getByText('one two three').first().waitFor();
    // Measured in frames, not in milliseconds, so that other load on the machine does not matter.
    const words = await chat.locator('.app').evaluate(async (app) => {
      app.querySelector<HTMLElement>('.main-button.stop')?.click();
      for (let n = 0; n < 2; n += 1) await new Promise((done) => requestAnimationFrame(done));
      return app.textContent ?? '';
    });
    assert.match(words, /Stopping…|Stopped\./);
    await chat.locator('.ending', { hasText: 'Stopped.' }).waitFor();
    await workbench.shot('13-stopped');
  });

  step('a reload restores the session', async ({ workbench }) => {
    await workbench.reload();
    await workbench.chat.locator('.ending', { hasText: 'Stopped.' }).waitFor();
    assert.equal(await workbench.chat.locator('.turn').count(), 5);
    await workbench.shot('14-reloaded');
  });

  step('a reload with a pending approval loses nothing', async (world) => {
    const { workbench, provider } = world;
    await provider.script(
      { calls: [{ name: 'bash', args: { command: 'touch again.txt' } }] },
      { text: 'It is there.' },
      { text: 'It is there.' },
    );
    await workbench.ask('Make a file');
    await workbench.card.waitFor();
    await workbench.reload();
    const goOn = workbench.button('Continue');
    await workbench.card.or(goOn).first().waitFor();
    await workbench.shot('15-reloaded-while-waiting');
    await workbench.button('Apply these changes').or(goOn).first().click();
    await workbench.chat.getByText('It is there.').waitFor();
  });

  step('30. a draft survives switching sessions, hiding the view, a reload and a failed send', async (world) => {
    const { workbench } = world;
    const { page, chat, prompt } = workbench;
    const holds = async (text: string) => {
      await prompt.waitFor();
      for (let n = 0; n < 300 && (await prompt.inputValue()) !== text; n += 1) await page.waitForTimeout(100);
      assert.equal(await prompt.inputValue(), text);
    };
    const text = 'a draft of the first session';
    await prompt.fill(text);
    await workbench.command('Pilotfish: New Session');
    await chat.getByText('What should we change?').waitFor();
    await holds('');
    await page.locator('.pane-header', { hasText: 'Sessions' }).click();
    const row = page.locator('.monaco-list-row', { hasText: 'Explain src/auth.py' }).first();
    await row.filter({ hasText: 'draft' }).waitFor();
    await workbench.shot('16-sessions');
    await row.click();
    await chat.locator('.turn').first().waitFor();
    await holds(text);
    await workbench.hideChat();
    await workbench.showChat();
    await holds(text);
    await workbench.reload();
    // VS Code saves its layout from time to time, so the side bar may be in an earlier state.
    await workbench.showChat();
    await holds(text);
    await workbench.status('scripted');
    // A prompt to a session that is still being opened waits, and goes to the server that starts after the crash.
    await chat.locator('.turn').first().waitFor();
    await world.signalServer('SIGSTOP');
    await prompt.press('Enter');
    await chat.locator('.prompt.sending', { hasText: text }).waitFor();
    await world.signalServer('SIGKILL');
    await chat.getByText('Pilotfish restarted').waitFor();
    await holds(text);
    await prompt.fill('');
  });
});
