/** Applying a code block of an answer: the place is found, the diff has Apply and Discard. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';
import { AUTH } from './support/world.ts';

const answer = (info: string, code: string) => ({ text: `Like this:\n\n\`\`\`${info}\n${code}\`\`\`\n` });
const CODE = 'def is_logged_in(token: Token | None) -> bool:\n    return token is not None and token.valid\n';
const AFTER = AUTH.replace(
  '    if token:\n        return True\n    return False',
  '    return token is not None and token.valid',
);

story('applying code', { viewport: { width: 1440, height: 900 } }, (step) => {
  step('a function of an answer replaces the one of its name, and nothing else', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await workbench.open(world.folder);
    await workbench.openFile('auth.py');
    await workbench.command('Pilotfish: Open Chat');
    await provider.script(answer('python', CODE));
    await workbench.ask('How?');
    await workbench.ended(1);
    await chat.getByLabel('Apply to the file…').click();
    const diff = page.locator('.monaco-diff-editor');
    await diff.locator('.view-line', { hasText: 'token.valid = False' }).first().waitFor();
    await workbench.shot('90-apply-diff');
    await page.getByLabel('Apply This Code').first().click();
    await diff.waitFor({ state: 'detached' });
    await workbench.line('return token is not None').waitFor();
    const unsaved = page.locator('.tab.dirty', { hasText: 'auth.py' });
    await unsaved.waitFor();
    await page.keyboard.press('Control+S');
    await unsaved.waitFor({ state: 'detached' });
    assert.equal(await world.read('src/auth.py'), AFTER);
    await page.keyboard.press('Control+Z');
    await workbench.line('return False').waitFor();
    await workbench.shot('91-applied-and-undone');
  });

  step('Discard closes the diff and changes nothing', async (world) => {
    const { workbench } = world;
    const { chat, page } = workbench;
    await chat.getByLabel('Apply to the file…').click();
    const diff = page.locator('.monaco-diff-editor');
    await diff.waitFor();
    await page.getByLabel('Discard This Code').first().click();
    await diff.waitFor({ state: 'detached' });
    await workbench.line('return False').waitFor();
  });

  step('code without a place is offered as a new file', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await provider.script(answer('python', 'print("nowhere")\n'), answer('python src/fresh.py', 'FRESH = 1\n'));
    await workbench.ask('And?');
    await workbench.ended(2);
    await chat.getByLabel('Apply to the file…').last().click();
    const toast = page.locator('.notification-toast', { hasText: 'not certain where this code belongs' });
    await toast.getByText('New File').click();
    await workbench.line('print("nowhere")').waitFor();
    await workbench.ask('A file?');
    await workbench.ended(3);
    await chat.getByLabel('Apply to the file…').last().click();
    await workbench.line('FRESH = 1').waitFor();
    await page.locator('.tab', { hasText: 'fresh.py' }).waitFor();
    await workbench.shot('92-new-file');
  });
});
