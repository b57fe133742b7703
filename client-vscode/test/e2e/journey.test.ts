/** The first hour of a new user, from a fresh profile without a key to a commit that says who helped. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Workbench } from './support/browser.ts';
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
const settings = {
  'pilotfish.model': 'demo',
  'pilotfish.baseUrl': '',
  'pilotfish.gitAttribution': 'trailer',
  'git.enabled': true,
};

/** Fills the input box whose prompt contains these words, and goes on. */
async function type({ page }: Workbench, prompt: string, text: string): Promise<void> {
  await page.locator('.quick-input-message', { hasText: prompt }).waitFor();
  await page.locator('.quick-input-widget .quick-input-box input').fill(text);
  await page.keyboard.press('Enter');
}

story('the first hour', { settings, env: { OPENAI_API_KEY: '' } }, (step) => {
  const git = async (folder: string, ...args: readonly string[]) =>
    (
      await promisify(execFile)('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', ...args], {
        cwd: folder,
      })
    ).stdout;

  step('without a model the guide answers, and says so', async ({ workbench, folder }) => {
    await git(folder, 'init', '--quiet');
    await git(folder, 'config', 'user.name', 'Ada');
    await git(folder, 'config', 'user.email', 'ada@example.org');
    await git(folder, 'add', '.');
    await git(folder, 'commit', '--quiet', '--message', 'Begin');
    await workbench.open(folder);
    await workbench.openFile('auth.py');
    await workbench.showChat();
    await workbench.chat.getByText('No model is connected. A scripted guide answers').waitFor();
    await workbench.shot('journey-1-welcome');
  });

  step('a wrong key is found when it is entered, and the right one is asked for', async ({ workbench, provider }) => {
    const { page } = workbench;
    await provider.accept('sk-right');
    await workbench.button('Connect a model').click();
    await workbench.quickPick('Connect a model…');
    await workbench.quickPick('Custom endpoint…');
    await type(workbench, 'A name', 'gateway');
    await type(workbench, 'The address', provider.url);
    await workbench.quickPick('OpenAI Chat Completions');
    await type(workbench, 'Its API key', 'sk-wrong');
    await workbench.quickPick('scripted');
    await page.locator('.monaco-dialog-box', { hasText: 'rejected' }).waitFor();
    await workbench.shot('journey-2-wrong-key');
    await page.locator('.monaco-dialog-box').getByRole('button', { name: 'Change it…' }).click();
    await provider.script({ text: 'OK' });
    await type(workbench, 'API key for gateway', 'sk-right');
    await workbench.status('scripted');
    await workbench.shot('journey-3-connected');
  });

  step('a prompt asks before it edits, and the edit is reviewed, undone and made again', async (world) => {
    const { workbench, provider, read } = world;
    await provider.script(
      { calls: [{ name: 'read_file', args: { path: 'src/auth.py' } }] },
      { calls: [EDIT] },
      { text: 'An invalid token is no login any more.' },
    );
    await workbench.ask('Fix the login check');
    await workbench.card.waitFor();
    await workbench.shot('journey-4-approval');
    await workbench.card.getByRole('button', { name: 'Allow', exact: true }).click();
    await workbench.ended(1);
    await workbench.lens.filter({ hasText: 'Keep' }).first().waitFor();
    await workbench.shot('journey-5-review');
    await workbench.button('Undo turn').click();
    await workbench.line('if token').waitFor();
    assert.equal(await read('src/auth.py'), AUTH);
    await workbench.button('Redo').click();
    await workbench.line('token is not None').waitFor();
    await workbench.button('Keep all').click();
    await workbench.chat.locator('.files-bar').waitFor({ state: 'detached' });
  });

  step('Restore to here goes back to before the prompt, and Redo returns', async ({ workbench }) => {
    const prompt = workbench.chat.locator('.prompt', { hasText: 'Fix the login check' });
    await prompt.hover();
    await prompt.getByRole('button', { name: 'Restore to here' }).click();
    await workbench.button('Restore').click();
    await workbench.line('if token').waitFor();
    await workbench.shot('journey-6-restored');
    await workbench.button('Redo').click();
    await workbench.line('token is not None').waitFor();
    await workbench.chat.locator('.prompt-words', { hasText: 'Fix the login check' }).waitFor();
  });

  step('a commit in the Source Control view says which turn helped', async ({ workbench, folder, read }) => {
    const { page } = workbench;
    await page.keyboard.press('Escape');
    await workbench.line('token is not None').click();
    await page.keyboard.press('Control+S');
    for (let n = 0; n < 100 && (await read('src/auth.py')) === AUTH; n += 1) await page.waitForTimeout(100);
    await git(folder, 'add', '.');
    await workbench.command('View: Show Source Control');
    const box = page.locator('.scm-view .scm-editor .monaco-editor').first();
    await box.waitFor();
    await box.click();
    await page.keyboard.type('Check that tokens are valid');
    await workbench.shot('journey-7-commit');
    await page.keyboard.press('Control+Enter');
    const message = () => git(folder, 'log', '-1', '--format=%B');
    for (let n = 0; n < 100 && (await message()).startsWith('Begin'); n += 1) await page.waitForTimeout(100);
    assert.match(
      await message(),
      /^Check that tokens are valid\n\nAssisted-by: Pilotfish \(gateway:scripted\)\nPilotfish-Turn: ses_\w+\/turn_\w+\n/,
    );
    await workbench.shot('journey-8-committed');
  });
});
