/** Drives the VS Code workbench in a browser: the chat's frame, notifications, commands and screenshots. */

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
    timeout: 90_000,
    viewport,
    args: FLAGS,
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  context.setDefaultTimeout(45_000); // for every window of it
  const page = context.pages()[0] ?? (await context.newPage());
  return {
    context,
    page,
    close: async () => {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

/** Every notification and every text of the status bar item that this window has shown, in order. */
interface Seen {
  toasts: string[];
  statuses: string[];
}

declare global {
  interface Window {
    seen?: Seen;
  }
}

/** Runs in the page before any other script. */
function record(): void {
  const seen: Seen = { toasts: [], statuses: [] };
  window.seen = seen;
  const known = new WeakMap<Element, number>();
  const look = () => {
    for (const toast of document.querySelectorAll('.notification-toast')) {
      const text = toast.querySelector('.notification-list-item-message')?.textContent ?? '';
      if (text === '') continue;
      if (!known.has(toast)) known.set(toast, seen.toasts.push(text) - 1);
      seen.toasts[known.get(toast) ?? 0] = text;
    }
    const status = document.querySelector('.statusbar-item[id^="pilotfish"]')?.textContent ?? '';
    if (status !== '' && status !== seen.statuses.at(-1)) seen.statuses.push(status);
  };
  if (window.top === window)
    new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
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
    await this.page.addInitScript(record);
    await this.page.goto(`${this.url}/?folder=${encodeURIComponent(folder)}`);
    await this.page.waitForSelector('.monaco-workbench', { timeout: 60_000 });
    await this.statusItem.waitFor({ timeout: 60_000 });
  }

  async reload(): Promise<void> {
    await this.page.reload();
    await this.statusItem.waitFor({ timeout: 60_000 });
  }

  get chat(): FrameLocator {
    return this.page.frameLocator('iframe.webview.ready[name]').first().frameLocator('iframe#active-frame');
  }

  get prompt(): Locator {
    return this.chat.locator('#prompt');
  }

  /** The first card that accepts input. */
  get card(): Locator {
    return this.chat.locator('.card.approval[data-accepts-input]').first();
  }

  button(name: string): Locator {
    return this.chat.getByRole('button', { name, exact: true });
  }

  /** Types a prompt and sends it. */
  async ask(text: string): Promise<void> {
    await this.prompt.fill(text);
    await this.chat.locator('.main-button:not([disabled])').last().waitFor();
    await this.prompt.press('Enter');
  }

  /** Waits until this number of turns of the session has ended. */
  async ended(turns: number): Promise<void> {
    await this.chat
      .locator('.turn-end')
      .nth(turns - 1)
      .waitFor({ timeout: 60_000 });
  }

  async showChat(): Promise<void> {
    await this.command('Pilotfish: Open Chat');
    await this.prompt.waitFor();
  }

  /** Hides the side bar. */
  async hideChat(): Promise<void> {
    await this.page.keyboard.press('Control+Alt+B');
    await this.page.locator('.part.auxiliarybar').waitFor({ state: 'hidden' });
  }

  get toasts(): Locator {
    return this.page.locator('.notifications-toasts .notification-toast');
  }

  toast(text: string | RegExp): Locator {
    return this.toasts.filter({ hasText: text });
  }

  /** Waits for a notification whose animation has ended. */
  async restingToast(text: string | RegExp): Promise<Locator> {
    const toast = this.page.locator('.notification-toast.notification-fade-in-done').filter({ hasText: text });
    await toast.waitFor({ timeout: 60_000 });
    return toast;
  }

  async seen(): Promise<Seen> {
    return this.page.evaluate(() => window.seen ?? { toasts: [], statuses: [] });
  }

  async forgetSeen(): Promise<void> {
    await this.page.evaluate(() => Object.assign(window.seen ?? {}, { toasts: [], statuses: [] }));
  }

  get statusItem(): Locator {
    return this.page.locator('.statusbar-item[id^="pilotfish"]').first();
  }

  /** Waits until the status bar item shows the text. */
  async status(text: string): Promise<void> {
    await this.statusItem.filter({ hasText: text }).waitFor({ timeout: 60_000 });
  }

  /** The badge of the chat's view container. */
  get badge(): Locator {
    return this.page.locator('.part.auxiliarybar .badge-content');
  }

  get lens(): Locator {
    return this.page.locator('.codelens-decoration a');
  }

  /** A line of the active editor. */
  line(text: string): Locator {
    return this.page.locator('.monaco-editor .view-line', { hasText: text }).first();
  }

  tab(text: string): Locator {
    return this.page.locator('.tab', { hasText: text });
  }

  async tabs(): Promise<readonly string[]> {
    return this.page.locator('.tabs-container .tab').evaluateAll((tabs) => tabs.map((tab) => tab.textContent ?? ''));
  }

  async quickPick(text: string): Promise<void> {
    await this.page.locator('.quick-input-list .monaco-list-row', { hasText: text }).first().click();
  }

  /** Runs a command from the palette. Retries, because the palette may not list a new extension's commands yet. */
  async command(name: string): Promise<void> {
    const row = this.page.locator('.quick-input-list .monaco-list-row', { hasText: name }).first();
    for (let attempt = 0; ; attempt += 1) {
      await this.page.keyboard.press('F1'); // lost while a view is loading
      try {
        await this.page.locator('.quick-input-widget input').first().fill(`>${name}`, { timeout: 5000 });
        await row.click({ timeout: 5000 }); // a view that takes the focus closes the palette, also before a key
        return;
      } catch (error) {
        if (attempt === 4) throw error;
        await this.page.keyboard.press('Escape');
      }
    }
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
      .locator('.tab.active', { hasText: path.basename(name) })
      .first()
      .waitFor();
    await this.page.locator('.monaco-editor .view-line').first().waitFor();
  }

  async shot(name: string): Promise<void> {
    await mkdir(SHOTS, { recursive: true });
    await this.page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
  }
}
