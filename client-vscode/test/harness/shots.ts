/** Takes screenshots of every scene: `node test/harness/shots.ts [scene…]` writes them to .e2e/shots/harness. */

import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { openBrowser } from '../e2e/support/browser.ts';
import { SHOTS } from '../e2e/support/vscode.ts';
import { serve, show, type Theme } from './page.ts';
import { AT, SCENES } from './scenes.ts';

const wanted = process.argv.slice(2);
const themes = (process.env.THEMES ?? 'dark,light').split(',') as Theme[];
const widths = (process.env.WIDTHS ?? '400').split(',').map(Number);
const out = path.join(SHOTS, 'harness');
await mkdir(out, { recursive: true });
const server = await serve();
const browser = await openBrowser();
// A fixed clock, so that durations are the same in every screenshot.
await browser.page.clock.setFixedTime(AT + 12_000);
for (const [name, messages] of Object.entries(SCENES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  for (const theme of themes) {
    for (const width of widths) {
      await browser.page.setViewportSize({ width, height: 760 });
      await show(browser.page, server.url, theme, messages);
      await browser.page.waitForTimeout(150);
      await browser.page.screenshot({ path: path.join(out, `${name}-${theme}-${width}.png`) });
    }
  }
}
console.log(await browser.page.evaluate(() => window.violations));
await browser.close();
server.close();
