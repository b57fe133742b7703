/** `/review`: findings as squiggles, with quick fixes to fix and to dismiss them. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';

const finding = (line: number, message: string, severity = 'warning') => ({
  name: 'report_finding',
  args: { path: 'src/auth.py', line, message, severity },
});

story('a review', { viewport: { width: 1440, height: 900 }, settings: { 'pilotfish.mode': 'edit' } }, (step) => {
  step('its findings are problems in the editor', async (world) => {
    const { workbench, provider } = world;
    const { page } = workbench;
    await workbench.open(world.folder);
    await workbench.openFile('auth.py');
    await workbench.command('Pilotfish: Open Chat');
    await provider.script(
      { calls: [finding(13, 'A revoked token counts as logged in.', 'error'), finding(19, 'Nobody stores this.')] },
      { text: 'Two findings.' },
    );
    await workbench.ask('/review src/auth.py');
    await workbench.ended(1);
    assert.match((await provider.requests())[0] ?? '', /Review this: src\/auth\.py/);
    await page.locator('.squiggly-error').first().waitFor();
    await page.locator('.squiggly-warning').first().waitFor();
    await workbench.shot('95-findings');
  });

  step('one is dismissed, the other is fixed in a session of its own', async (world) => {
    const { workbench, provider } = world;
    const { page, chat } = workbench;
    const choose = async (line: string, action: RegExp) => {
      const offered = page.locator('.action-widget .monaco-list-row', { hasText: action });
      await workbench.line(line).click();
      for (let press = 0; press < 5; press += 1) {
        await page.keyboard.press('Control+.');
        const there = await offered
          .first()
          .waitFor({ timeout: 8000 })
          .then(
            () => true,
            () => false,
          );
        if (there) break;
        await page.keyboard.press('Escape');
      }
      await offered.first().click();
    };
    await choose('token.valid = False', /Dismiss this finding/);
    await page.locator('.squiggly-warning').first().waitFor({ state: 'detached' });
    const edits = [{ old_string: '    if token:\n', new_string: '    if token and token.valid:\n' }];
    await provider.script(
      { calls: [{ name: 'update_file', args: { path: 'src/auth.py', edits } }] },
      { text: 'A revoked token is refused now.' },
    );
    await choose('if token:', /Fix with Pilotfish/);
    await chat.getByText('A revoked token is refused now.').waitFor();
    assert.match((await provider.requests()).at(-1) ?? '', /A revoked token counts as logged in/);
    await page.locator('.squiggly-error').first().waitFor({ state: 'detached' });
    await workbench.shot('96-fixed');
  });
});
