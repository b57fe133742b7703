/** Inline edits and code actions: sessions of their own, lenses, Escape, follow-ups. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';

const change = (old_string: string, new_string: string) => ({
  calls: [{ name: 'update_file', args: { path: 'src/auth.py', edits: [{ old_string, new_string }] } }],
});

story('inline edits', { viewport: { width: 1440, height: 900 } }, (step) => {
  step('Ctrl+I asks at the line, and the edit is pending without a question', async (world) => {
    const { workbench, provider } = world;
    const { page } = workbench;
    await workbench.open(world.folder);
    await workbench.openFile('auth.py');
    await workbench.line('token.valid = False').click();
    await provider.script(change('    token.valid = False\n', '    token.valid = None\n'), { text: 'Done.' });
    await page.keyboard.press('Control+I');
    const box = page.locator('.quick-input-widget input');
    await box.waitFor();
    await workbench.shot('80-inline-input');
    await box.fill('Use None');
    await page.keyboard.press('Enter');
    await workbench.line('token.valid = None').waitFor();
    const lenses = page.locator('.codelens-decoration a');
    await lenses.filter({ hasText: /^Retry$/ }).waitFor();
    assert.match((await provider.requests())[0] ?? '', /At line 19 of auth\.py: Use None/);
    assert.equal(await workbench.card.count(), 0);
    await workbench.shot('81-inline-edit');
  });

  step('a follow-up refines the same hunk', async (world) => {
    const { workbench, provider } = world;
    const { page } = workbench;
    await provider.script(change('    token.valid = None\n', '    del token.valid\n'), { text: 'Done.' });
    await workbench.line('token.valid = None').click();
    await page.keyboard.press('Control+I');
    await page.locator('.quick-input-title', { hasText: 'Refine this edit' }).waitFor();
    await page.locator('.quick-input-widget input').fill('Delete it');
    await page.keyboard.press('Enter');
    await workbench.line('del token.valid').waitFor();
    await page.locator('.codelens-decoration a', { hasText: /^Retry$/ }).waitFor();
  });

  step('the lens tries again, and Escape undoes the edit', async (world) => {
    const { workbench, provider } = world;
    const { page } = workbench;
    await provider.script(change('    token.valid = False\n', '    token.valid = 0\n'), { text: 'Done.' });
    const asked = (await provider.requests()).length;
    await page.locator('.codelens-decoration a', { hasText: /^Retry$/ }).click();
    await workbench.line('token.valid = 0').waitFor();
    // A turn that Escape stops would leave its last reply to the next step.
    for (let n = 0; n < 100 && (await provider.requests()).length < asked + 2; n += 1) await page.waitForTimeout(100);
    assert.match((await provider.requests()).at(-1) ?? '', /I have undone your edit of auth\.py/);
    await workbench.line('token.valid = 0').click();
    await page.locator('.codelens-decoration a', { hasText: /^Retry$/ }).waitFor();
    await page.keyboard.press('Escape');
    await workbench.line('token.valid = False').waitFor();
    await page.locator('.codelens-decoration').waitFor({ state: 'detached' });
  });

  step('Escape stops an edit that runs', async (world) => {
    const { workbench, provider } = world;
    const { page } = workbench;
    await provider.script({ text: 'never', wait: 60 });
    await workbench.line('token.valid = False').click();
    await page.keyboard.press('Control+I');
    await page.locator('.quick-input-widget input').fill('Wait');
    await page.keyboard.press('Enter');
    await page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
    // The words are a decoration behind the line, which no locator sees.
    const isMarked = (marked: boolean) =>
      page.waitForFunction(
        (wanted) =>
          wanted ===
          [...document.querySelectorAll('.monaco-editor .view-line span')].some((part) =>
            getComputedStyle(part, '::after').content.includes('Pilotfish is editing'),
          ),
        marked,
      );
    await isMarked(true);
    await workbench.shot('82-inline-running');
    await page.keyboard.press('Escape');
    await isMarked(false);
  });

  step('a code action starts a session of its own', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await workbench.command('Pilotfish: Open Chat');
    await provider.script({ text: 'A long talk about something else.' });
    await workbench.ask('Something else');
    await workbench.ended(1);
    await workbench.line('def logout').click();
    await page.keyboard.press('Home');
    await page.keyboard.press('Shift+End');
    await provider.script({ text: 'It logs out.' });
    await workbench.command('Pilotfish: Explain');
    await chat.getByText('It logs out.').waitFor();
    assert.doesNotMatch((await provider.requests()).at(-1) ?? '', /Something else/);
    assert.equal(await chat.getByText('A long talk about something else.').count(), 0);
    await workbench.shot('83-own-session');
  });
});
