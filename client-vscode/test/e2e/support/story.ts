/** Tests that depend on each other: the first failure takes a screenshot, and the remaining steps are skipped. */

import { after, before, describe, test } from 'node:test';
import { Workbench } from './browser.ts';
import { makeWorld, type World, type WorldOptions } from './world.ts';

export type Step = (name: string, run: (world: World) => Promise<void>) => void;

export function story(name: string, options: WorldOptions, tell: (step: Step) => void): void {
  describe(name, () => {
    let world: World | undefined;
    let failed = false;
    let count = 0;
    before(async () => {
      world = await makeWorld(options);
    });
    after(() => world?.stop());
    tell((title, run) => {
      count += 1;
      const shot = `failed-${name.replace(/\W+/g, '-')}-${count}`;
      test(title, { timeout: 240_000 }, async (context) => {
        if (failed || !world) {
          context.skip('an earlier step failed');
          return;
        }
        try {
          await run(world);
        } catch (error) {
          failed = true;
          for (const [index, page] of world.browser.context.pages().entries())
            await new Workbench(page, '').shot(index === 0 ? shot : `${shot}-window-${index + 1}`).catch(() => {});
          throw error;
        }
      });
    });
  });
}
