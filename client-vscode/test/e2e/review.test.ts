/** The review of the agent's changes in the editor: marks, lenses, keys, and the files bar. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';

const EDITS = [
  { old_string: 'from datetime import datetime\n', new_string: 'from datetime import datetime, timezone\n' },
  {
    old_string: '    if token:\n        return True\n    return False',
    new_string: '    return token is not None and token.valid',
  },
];

story(
  'the review',
  { viewport: { width: 1440, height: 900 }, settings: { 'pilotfish.mode': 'edit', 'files.autoSave': 'off' } },
  (step) => {
    step('pending hunks are marked in the editor and listed above the composer', async (world) => {
      const { page, chat } = world.workbench;
      await world.workbench.open(world.folder);
      await world.workbench.openFile('auth.py');
      await world.workbench.command('Pilotfish: Open Chat');
      await world.provider.script(
        { calls: [{ name: 'read_file', args: { path: 'src/auth.py' } }] },
        {
          calls: [
            { name: 'update_file', args: { path: 'src/auth.py', edits: EDITS } },
            { name: 'write_file', args: { path: 'NOTES.md', content: 'One note.\n' } },
          ],
        },
        { text: 'Both are done.' },
      );
      await world.workbench.ask('Look at validity, and take a note');
      await world.workbench.ended(1);
      const bar = chat.locator('.files-bar');
      await bar.waitFor();
      await bar.getByText('2 files', { exact: true }).waitFor();
      assert.deepEqual(await bar.locator('.dock-show').allInnerTexts(), ['NOTES.md', 'src/auth.py']);
      await page.locator('.codelens-decoration', { hasText: 'Keep' }).first().waitFor();
      await world.workbench.shot('60-review');
    });

    step('which turn wrote which lines is shown on demand', async ({ workbench }) => {
      const { page } = workbench;
      await workbench.openFile('auth.py');
      await workbench.command('Pilotfish: Show or Hide Which Turn Wrote These Lines');
      // VS Code draws the words as generated content, which is no text of the page.
      const shown = async (count: number) => {
        const spans = page.locator('.monaco-editor .view-line span');
        const drawn = () =>
          spans.evaluateAll((all) => all.map((span) => getComputedStyle(span, '::after').content).filter(Boolean));
        for (let attempt = 0; ; attempt += 1) {
          const words = (await drawn()).filter((content) => content.includes('Pilotfish: Look at validity'));
          if (words.length === count) return;
          assert.ok(attempt < 300, `${count} turns were expected, and ${words.length} are shown`);
          await page.waitForTimeout(100);
        }
      };
      await shown(2);
      await workbench.shot('60-authors');
      await workbench.command('Pilotfish: Show or Hide Which Turn Wrote These Lines');
      await shown(0);
    });

    step('a word typed in a hunk survives its undo', async (world) => {
      const { page } = world.workbench;
      const line = page.locator('.monaco-editor .view-line', { hasText: 'token.valid' }).first();
      await line.click();
      await page.keyboard.press('End');
      await page.keyboard.type('  # mine');
      await page.keyboard.press('Control+K');
      await page.keyboard.press('n');
      await page.locator('.monaco-editor .view-line', { hasText: 'return False' }).first().waitFor();
      await page.locator('.monaco-editor .view-line', { hasText: '# mine' }).first().waitFor();
      await world.workbench.shot('61-undone-hunk');
    });

    step('the lens keeps a hunk, and the bar undoes a new file', async (world) => {
      const { page, chat } = world.workbench;
      await page
        .locator('.codelens-decoration a', { hasText: /^Keep$/ })
        .first()
        .click();
      const bar = chat.locator('.files-bar');
      await bar.getByText('1 file', { exact: true }).waitFor();
      assert.deepEqual(await bar.locator('.dock-show').allInnerTexts(), ['NOTES.md']);
      await bar.getByLabel('Undo the changes in NOTES.md').click();
      await bar.waitFor({ state: 'detached' });
      await assert.rejects(world.read('NOTES.md'));
      await page.locator('.monaco-editor .view-line', { hasText: 'datetime, timezone' }).first().waitFor();
      await world.workbench.shot('62-reviewed');
    });
  },
);
