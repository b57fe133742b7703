/** First run on a machine without a server: asked, installed from the wheel inside the extension, and up. Needs the
 * Python package index and a minute, so it runs only when asked for: PILOTFISH_E2E_INSTALL=1. */

import { story } from './support/story.ts';

const wanted = process.env.PILOTFISH_E2E_INSTALL === '1';

if (wanted) {
  story('no server yet', { settings: { 'pilotfish.server.command': [], 'pilotfish.model': 'demo' } }, (step) => {
    step('the chat says so and offers to install it', async (world) => {
      const { chat } = world.workbench;
      await world.workbench.open(world.folder);
      await world.workbench.command('Pilotfish: Open Chat');
      await chat.getByText('No Pilotfish server found.').waitFor({ timeout: 60_000 });
      await world.workbench.shot('50-no-server');
    });

    step('it is installed with progress, and answers', async (world) => {
      const { chat, page } = world.workbench;
      await chat.getByRole('button', { name: 'Install the server' }).click();
      await chat.getByText('Installing the server…').waitFor({ timeout: 60_000 });
      await page.waitForTimeout(500);
      await world.workbench.shot('51-installing');
      await chat.locator('.banner').waitFor({ state: 'detached', timeout: 110_000 });
      await chat.getByText('No model connected').waitFor();
      await world.workbench.shot('52-installed');
    });
  });
}
