/** The editor integration: code actions, unsaved text, attachments, pickers, themes. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { held } from './support/provider.ts';
import { story } from './support/story.ts';

const BODY_CLASS = {
  dark: 'vscode-dark',
  light: 'vscode-light',
  'hc-dark': 'vscode-high-contrast:not(.vscode-high-contrast-light)',
  'hc-light': 'vscode-high-contrast-light',
};
const THEME_CLASS = { dark: 'vs-dark', light: 'vs', 'hc-dark': 'hc-black', 'hc-light': 'hc-light' };

const ANSWER = `\`is_logged_in\` took **any** token for a login. It looks at \`valid\` now, see \`src/auth.py:13\`:

\`\`\`python
def is_logged_in(token: Token | None) -> bool:
    # a token that was revoked is no login
    return token is not None and token.valid
\`\`\`

| check | before | now |
| --- | --- | --- |
| no token | no | no |
| revoked token | **yes** | no |
`;

story('the editor', { viewport: { width: 1440, height: 900 } }, (step) => {
  step('a code action on a diagnostic starts a turn', async (world) => {
    const { page } = world.workbench;
    await world.workbench.open(world.folder);
    await world.workbench.openFile('settings.json');
    await page.locator('.squiggly-warning').first().waitFor();
    await page.locator('.monaco-editor .view-line', { hasText: 'retries' }).nth(1).click();
    await page.keyboard.press('End');
    await page.keyboard.press('Home');
    await page.locator('[class*="codicon-light-bulb"], [class*="lightbulb"]').first().waitFor();
    const fix = page.locator('.action-widget .monaco-list-row', { hasText: /Fix .*with Pilotfish/ });
    for (let press = 0; press < 5; press += 1) {
      await page.keyboard.press('Control+.');
      if (
        await fix
          .first()
          .waitFor({ timeout: 8000 })
          .then(
            () => true,
            () => false,
          )
      )
        break;
      await page.keyboard.press('Escape');
    }
    await world.workbench.shot('30-light-bulb');
    await world.provider.script(
      {
        calls: [
          {
            name: 'update_file',
            args: { path: 'settings.json', edits: [{ old_string: '  "retries": 3,\n', new_string: '' }] },
          },
        ],
      },
      { text: 'The key stood there twice; the last one counted, and it stays.' },
    );
    await fix.first().click();
    await world.workbench.card.waitFor();
    assert.match((await world.provider.requests()).at(-1) ?? '', /Duplicate object key/);
    await world.workbench.shot('31-fix');
    await world.workbench.button('Allow').click();
    await world.workbench.ended(1);
  });

  step('unsaved text is read and preserved by edits', async (world) => {
    const { page } = world.workbench;
    await world.workbench.openFile('auth.py');
    await page.locator('.monaco-editor .view-line', { hasText: 'from dataclasses' }).first().click();
    await page.keyboard.press('Control+Home');
    await page.keyboard.type('# my unsaved note\n');
    await world.workbench.command('Pilotfish: Open Chat');
    await world.provider.script(
      {
        calls: [
          { name: 'read_file', args: { path: 'src/auth.py' } },
          { name: 'list_dir', args: { path: 'src' } },
          { name: 'grep', args: { pattern: 'Token' } },
        ],
      },
      {
        calls: [
          {
            name: 'update_file',
            args: {
              path: 'src/auth.py',
              edits: [
                {
                  old_string: '    if token:\n        return True\n    return False',
                  new_string: '    return token is not None and token.valid',
                },
              ],
            },
          },
        ],
      },
      { text: ANSWER, usage: { input: 9_000, output: 400 } },
    );
    await world.workbench.ask('Make the login check look at the token’s validity');
    await world.workbench.card.waitFor();
    assert.match((await world.provider.requests()).at(-1) ?? '', /my unsaved note/);
    await world.workbench.shot('32-beside-unsaved-text');
    await world.workbench.button('Allow').click();
    await world.workbench.ended(2);
    await page.locator('.monaco-editor .view-line', { hasText: 'my unsaved note' }).first().waitFor();
    await page.locator('.monaco-editor .view-line', { hasText: 'token.valid' }).first().waitFor();
    await page.locator('.tab.dirty', { hasText: 'auth.py' }).waitFor();
    assert.doesNotMatch(await world.read('src/auth.py'), /my unsaved note/);
    await world.workbench.shot('33-kept');
  });

  step('36. undo lists conflicts with the user’s edits and changes nothing', async (world) => {
    const { workbench } = world;
    const { chat, page } = workbench;
    await workbench.line('token.valid').click();
    await page.keyboard.press('End');
    await page.keyboard.type('  # checked by hand');
    await workbench.line('# checked by hand').waitFor();
    await chat.getByRole('button', { name: 'Undo turn' }).last().click();
    await chat.locator('.conflicts li', { hasText: 'src/auth.py' }).waitFor();
    assert.equal(await chat.getByText('Turn undone').count(), 0);
    await workbench.line('return token is not None and token.valid  # checked by hand').waitFor();
    await workbench.line('my unsaved note').waitFor();
    await workbench.shot('34-undo-conflict');
  });

  step('a selection can be attached and a mention completed', async (world) => {
    const { chat, page } = world.workbench;
    await page.locator('.monaco-editor .view-line', { hasText: 'class Token' }).first().click();
    await page.keyboard.press('Home');
    await page.keyboard.press('Shift+ArrowDown');
    await page.keyboard.press('Shift+ArrowDown');
    await world.workbench.command('Pilotfish: Attach Selection');
    await chat.locator('.chips li.chip', { hasText: 'auth.py:' }).waitFor();
    await chat.locator('#prompt').pressSequentially('Compare with @token');
    await chat.locator('.popover .offer', { hasText: 'token_store.py' }).first().waitFor();
    await world.workbench.shot('35-attached');
    await page.keyboard.press('Enter');
    assert.equal(await chat.locator('#prompt').inputValue(), 'Compare with @src/token_store.py ');
    await world.provider.script({ text: 'They have nothing in common.' });
    await page.keyboard.press('Enter');
    await world.workbench.ended(3);
    const request = (await world.provider.requests()).at(-1) ?? '';
    assert.match(request, /TOKENS = /);
    assert.match(request, /class Token/);
  });

  step('34. queued prompts survive Stop', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await provider.script({ text: 'working on it ', times: 50_000, delay: 0.05 });
    await workbench.ask('A long one');
    await chat.getByText('working on it').first().waitFor();
    await workbench.ask('Then this');
    const queued = chat.locator('.queue li', { hasText: 'Then this' });
    await queued.waitFor();
    await workbench.shot('36-queued');
    await workbench.prompt.focus();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await chat.locator('.ending', { hasText: 'Stopped.' }).last().waitFor();
    const requests = (await provider.requests()).length;
    await page.waitForTimeout(2000);
    assert.equal(await queued.count(), 1);
    assert.equal((await provider.requests()).length, requests, 'the line waits');
    // The turn continues with the next prompt in the queue.
    await provider.script({ text: 'The queued one.' }, { text: 'The new one.' });
    await workbench.ask('Go on');
    await chat.getByText('The new one.').waitFor();
    await chat.locator('.queue').waitFor({ state: 'detached' });
    assert.deepEqual((await chat.locator('.prompt .prompt-words').allTextContents()).slice(-3), [
      'A long one',
      'Then this',
      'Go on',
    ]);
    assert.match((await chat.locator('.turn').last().textContent()) ?? '', /Go on.*The new one\./s);
  });

  step('35. a steered prompt that no step read becomes the next prompt', async (world) => {
    const { workbench, provider } = world;
    const { chat } = workbench;
    await provider.hold();
    await provider.script(
      { parts: [{ text: 'The last words ' }, { gate: true }, { text: 'of this turn.' }] },
      { text: 'And now in French.' },
    );
    await workbench.ask('Say it');
    await chat.getByText('The last words').waitFor();
    await workbench.prompt.fill('In French');
    await workbench.prompt.press('Control+Enter');
    await chat.locator('.queue li', { hasText: 'Delivered at the next step' }).waitFor();
    await provider.release();
    await chat.getByText('And now in French.').waitFor();
    await chat.locator('.queue').waitFor({ state: 'detached' });
    assert.match((await provider.requests()).at(-1) ?? '', /In French/);
    assert.match((await chat.locator('.turn').last().textContent()) ?? '', /In French.*And now in French\./s);
  });

  step('a steered prompt is delivered at the next step', async (world) => {
    const { workbench, provider } = world;
    const { chat } = workbench;
    await provider.hold();
    // The list shows the prompt before the server has it, so the step takes a while.
    const pause = { name: 'bash', args: { command: 'sleep 2' } };
    await provider.script(held({ calls: [{ name: 'read_file', args: { path: 'README.md' } }, pause] }), {
      text: 'In French, then: une petite boutique.',
    });
    await workbench.ask('Translate the README');
    await chat.locator('.working').waitFor();
    await workbench.prompt.fill('Into French');
    await workbench.prompt.press('Control+Enter');
    await chat.locator('.queue li', { hasText: 'Delivered at the next step' }).waitFor();
    await provider.release();
    await chat.getByText('une petite boutique').waitFor();
    await chat.locator('.steer', { hasText: 'Into French' }).filter({ hasText: 'Delivered' }).waitFor();
    assert.match((await provider.requests()).at(-1) ?? '', /Into French/);
    // It is shown where it was delivered, before the answer to it.
    assert.match((await chat.locator('.turn').last().textContent()) ?? '', /README.*Into French.*une petite/s);
    await workbench.shot('37-steered');
    await chat.locator('.queue').waitFor({ state: 'detached' });
  });

  step('the model and the mode have native pickers, and the status menu lists all commands', async (world) => {
    const { chat, page } = world.workbench;
    // The view is too narrow for two pickers, so there is one for both.
    await chat.locator('.picker.both').click();
    await world.workbench.quickPick('Model');
    await page.locator('.quick-input-list .monaco-list-row', { hasText: 'in use' }).waitFor();
    await world.workbench.shot('38-models');
    await page.keyboard.press('Escape');
    await chat.locator('.picker.both').click();
    await world.workbench.quickPick('Mode');
    await world.workbench.quickPick('Plan only');
    await chat.locator('.picker.both', { hasText: 'Plan only' }).waitFor();
    await world.workbench.statusItem.click();
    await page.locator('.quick-input-list .monaco-list-row', { hasText: 'Restart server' }).waitFor();
    await world.workbench.shot('38-menu');
    await page.keyboard.press('Escape');
  });

  step('works in every theme', async (world) => {
    const { chat, page } = world.workbench;
    await chat.locator('.transcript').focus();
    await page.keyboard.press('Alt+ArrowUp');
    await page.keyboard.press('Alt+ArrowUp');
    for (const [name, theme] of [
      ['dark', 'Dark 2026'],
      ['hc-dark', 'Dark High Contrast'],
      ['hc-light', 'Light High Contrast'],
      ['light', 'Light 2026'],
    ] as const) {
      await page.keyboard.press('Control+K');
      await page.keyboard.press('Control+T');
      await page.locator('.quick-input-widget input').first().fill(theme);
      await page.locator('.quick-input-list .monaco-list-row', { hasText: theme }).first().click();
      await page.locator(`.monaco-workbench.${THEME_CLASS[name]}`).first().waitFor();
      await chat.locator(`body.${BODY_CLASS[name]}`).waitFor();
      await world.workbench.shot(`39-theme-${name}`);
    }
    assert.equal(await chat.locator('html').evaluate((root) => root.scrollWidth > window.innerWidth), false);
  });

  step('after a crash the chat shows a banner and the session', async (world) => {
    const { chat } = world.workbench;
    await world.signalServer('SIGKILL');
    await chat.getByText('Pilotfish restarted').waitFor();
    await chat.locator('.turn').first().waitFor();
    await world.workbench.shot('40-crashed');
    await world.provider.script({ text: 'Here again.' });
    await world.workbench.ask('Still there?');
    await chat.getByText('Here again.').waitFor();
  });

  step('a failure shows remedies that work', async ({ workbench, provider }) => {
    const { chat, page } = workbench;
    await provider.script({ error: 'authentication' }, { text: 'With the right key.' });
    await workbench.ask('Try it');
    const box = chat.locator('.notice.boxed');
    await box.getByText('The provider rejected the API key.').waitFor();
    await workbench.shot('41-failed');
    await box.getByRole('button', { name: 'Update API key' }).click();
    await page.locator('.quick-input-widget', { hasText: 'API key for 127.0.0.1' }).waitFor();
    await page.keyboard.press('Escape');
    await box.getByRole('button', { name: 'Retry' }).click();
    await chat.getByText('With the right key.').waitFor();
  });

  step('a crash during an answer keeps the received text, and the turn can be continued', async (world) => {
    const { workbench, provider } = world;
    const { chat } = workbench;
    await provider.hold();
    await provider.script(
      { parts: [{ text: 'The first half, ' }, { gate: true }, { text: 'never sent.' }] },
      { text: 'And the second half.' },
    );
    await workbench.ask('Tell me all');
    await chat.getByText('The first half,').waitFor();
    await world.signalServer('SIGKILL');
    const box = chat.locator('.notice.boxed', { hasText: 'the last step may be incomplete' });
    await box.waitFor();
    await chat.getByText('The first half,').waitFor();
    await workbench.shot('42-cut');
    assert.equal(await chat.getByRole('button', { name: 'Continue' }).count(), 1);
    await provider.release();
    await box.getByRole('button', { name: 'Continue' }).click();
    await chat.getByText('And the second half.').waitFor();
  });
});
