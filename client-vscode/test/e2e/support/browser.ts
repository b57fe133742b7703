/** The workbench as a person sees it: pages, the chat's frame, toasts, commands, pictures. */

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type BrowserContext, chromium, type FrameLocator, type Locator, type Page } from 'playwright-core';
import { chromiumPath, SHOTS } from './vscode.ts';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface Browser {
  context: BrowserContext;
  page: Page;
  close(): Promise<void>;
}

export async function openBrowser(viewport = { width: 1280, height: 800 }): Promise<Browser> {
  const profile = await mkdtemp(path.join(tmpdir(), 'pilotfish-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: chromiumPath(),
    headless: true,
    viewport,
    args: FLAGS,
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const page = context.pages()[0] ?? (await context.newPage());
  page.setDefaultTimeout(30_000);
  return {
    context,
    page,
    close: async () => {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

/** One window of VS Code. */
export class Workbench {
  readonly page: Page;
  private readonly url: string;

  constructor(page: Page, url: string) {
    this.page = page;
    this.url = url;
  }

  async open(folder: string): Promise<void> {
    await this.page.goto(`${this.url}/?folder=${encodeURIComponent(folder)}`);
    await this.page.waitForSelector('.monaco-workbench', { timeout: 60_000 });
    await this.statusItem.waitFor({ timeout: 60_000 });
  }

  get chat(): FrameLocator {
    return this.page.frameLocator('iframe.webview.ready[name]').first().frameLocator('iframe#active-frame');
  }

  get toasts(): Locator {
    return this.page.locator('.notifications-toasts .notification-toast');
  }

  toast(text: string | RegExp): Locator {
    return this.toasts.filter({ hasText: text });
  }

  get statusItem(): Locator {
    return this.page.locator('.statusbar-item[id^="pilotfish"]').first();
  }

  /** From the palette; its list may be older than an extension that has just come up. */
  async command(name: string): Promise<void> {
    const row = this.page.locator('.quick-input-list .monaco-list-row', { hasText: name }).first();
    for (let attempt = 0; ; attempt += 1) {
      await this.page.keyboard.press('F1');
      await this.page.locator('.quick-input-widget input').first().fill(`>${name}`);
      try {
        await row.waitFor({ timeout: 5000 });
        break;
      } catch (error) {
        if (attempt === 4) throw error;
        await this.page.keyboard.press('Escape');
      }
    }
    await this.page.keyboard.press('Enter');
  }

  async openFile(name: string): Promise<void> {
    await this.page.keyboard.press('Control+P');
    const input = this.page.locator('.quick-input-widget input').first();
    await input.fill(name);
    await this.page
      .locator('.quick-input-list .monaco-list-row', { hasText: path.basename(name) })
      .first()
      .waitFor();
    await this.page.keyboard.press('Enter');
    await this.page
      .locator('.tab', { hasText: path.basename(name) })
      .first()
      .waitFor();
  }

  async shot(name: string): Promise<void> {
    await mkdir(SHOTS, { recursive: true });
    await this.page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
  }
}
