/** Inline completion: ghost text of a model of its own, accepted with Tab, counted apart. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';

const settings = { 'pilotfish.completionModel': 'openai-compatible:scripted' };

story('inline completion', { viewport: { width: 1440, height: 900 }, trust: true, settings }, (step) => {
  step('what the model proposes is shown at the cursor, and Tab inserts it', async (world) => {
    const { workbench, provider } = world;
    const { page } = workbench;
    await provider.script({ text: ' is not None', repeat: 20 });
    await workbench.open(world.folder);
    await workbench.openFile('auth.py');
    await workbench.line('return True').click();
    await page.keyboard.press('End');
    const ghost = page.locator('.ghost-text, .ghost-text-decoration').filter({ hasText: 'is not None' });
    // The server may still be starting when the first key is pressed.
    for (let tries = 0; tries < 20 && (await ghost.count()) === 0; tries += 1) {
      await page.keyboard.press('#');
      await page.waitForTimeout(500);
      if ((await ghost.count()) === 0) await page.keyboard.press('Backspace');
    }
    await ghost.first().waitFor();
    await workbench.shot('84-inline-completion');
    await page.keyboard.press('Tab');
    await workbench.line('return True# is not None').waitFor();
    const sent = JSON.parse((await provider.requests())[0] ?? '{}');
    assert.equal(sent.path, '/v1/completions');
    assert.match(sent.body.prompt, /^# src\/auth\.py\n/);
  });

  step('its requests are counted apart', async (world) => {
    const { workbench } = world;
    await workbench.command('Pilotfish: Status');
    const dialog = workbench.page.locator('.monaco-dialog-box');
    await dialog.getByText(/Inline completion: openai-compatible:scripted/).waitFor();
    await dialog.getByText(/\d+ requests, \d+ tokens/).waitFor();
    await workbench.shot('85-completion-status');
  });
});
