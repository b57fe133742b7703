/** Opens the chat view in a plain browser page, for tests that do not need VS Code. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { parseViewMessage } from '../../../src/chat/viewMessages.ts';
import type { Update } from '../../../src/protocol.gen.ts';
import type { ToView } from '../../../webview/messages.ts';
import { serve, show, type Theme } from '../../harness/page.ts';
import { EDIT_APPROVAL, EDIT_CALL, loaded, START, updates } from '../../harness/scenes.ts';
import { type Browser, openBrowser } from './browser.ts';

export const USAGE = {
  inputTokens: 10,
  outputTokens: 10,
  cachedTokens: 0,
  reasoningTokens: 0,
  unpricedRequests: 0,
  requests: 1,
  toolCalls: 0,
};
export const STARTED: Update = { kind: 'turn_started', promptId: 'p1', prompt: [{ type: 'text', text: 'Hi' }] };
export const ENDED: Update = { kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE };
export const OPEN: readonly ToView[] = [...START, loaded()];
/** A turn that waits for an answer. */
export const WAITING: readonly ToView[] = [
  ...OPEN,
  updates([STARTED, { kind: 'tool_call', call: EDIT_CALL }]),
  { type: 'approval', request: EDIT_APPROVAL },
];
/** More than one screen of prose. */
export const LONG = 'A paragraph of some length, so that it fills a line or two of the side bar.\n\n'.repeat(40);

export const chunk = (text: string, itemId = 'm1'): Update => ({ kind: 'agent_message_chunk', itemId, text });

/** The parts of the view that can be scrolled horizontally. */
export function scrollingSideways(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    ['html', 'body', '.app', '.transcript', '.dock', '.composer', '.welcome']
      .flatMap((selector) => [...document.querySelectorAll(selector)])
      .filter((node) => node.scrollWidth > node.clientWidth)
      .map((node) => `${node.tagName}.${node.className}`),
  );
}

/** The controls and texts that reach beyond the right edge of the view, and are not meant to be scrolled or cut. */
export function outsideTheView(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const mayBeWide = (node: Element): boolean => {
      const { overflowX, textOverflow } = getComputedStyle(node);
      return textOverflow === 'ellipsis' || (/auto|scroll/.test(overflowX) && node.matches('pre, table, .diff'));
    };
    const inWide = (node: Element | null): boolean => node !== null && (mayBeWide(node) || inWide(node.parentElement));
    return [...document.querySelectorAll<HTMLElement>('button, li, p, h2, h3, textarea, .notice, .meta, .chip')]
      .filter((node) => node.offsetParent !== null && !inWide(node.parentElement) && !node.matches('.only-read'))
      .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
      .map((node) => `${node.tagName}.${node.className}`);
  });
}

export interface Bare {
  readonly page: Page;
  readonly browser: Browser;
  open(messages: readonly ToView[], theme?: Theme): Promise<void>;
  prompt(): Locator;
  /** a card that accepts input */
  card(): Promise<Locator>;
  scrollTop(): Promise<number>;
  fromEnd(): Promise<number>;
  /** waits until smooth scrolling of the transcript has ended */
  rest(): Promise<void>;
  /** scrolls the transcript with the wheel and waits until it has moved */
  wheel(by: number): Promise<void>;
}

export function bareView(name: string, tell: (bare: Bare) => void): void {
  describe(name, () => {
    let browser: Browser;
    let server: { url: string; close(): void };
    before(async () => {
      server = await serve();
      browser = await openBrowser({ width: 400, height: 760 });
    });
    after(async () => {
      await browser?.close();
      server?.close();
    });
    beforeEach(() => browser.page.setViewportSize({ width: 400, height: 760 }));
    /** Checks that the host accepts every message that the view has sent. */
    const taken = async () => {
      const posted = await browser.page.evaluate(() => window.posted ?? []);
      assert.deepEqual(
        posted.filter((message) => parseViewMessage(message) === undefined),
        [],
      );
    };
    afterEach(taken);
    const box = () => browser.page.locator('.transcript');
    const scrollTop = () => box().evaluate((node) => node.scrollTop);
    const rest = () =>
      box().evaluate(async (node) => {
        const frame = () => new Promise((done) => requestAnimationFrame(done));
        for (let last = -1; last !== node.scrollTop; ) {
          last = node.scrollTop;
          for (let n = 0; n < 12; n += 1) await frame();
        }
      });
    tell({
      get page() {
        return browser.page;
      },
      get browser() {
        return browser;
      },
      open: async (messages, theme = 'dark') => {
        await taken();
        await show(browser.page, server.url, theme, messages);
      },
      prompt: () => browser.page.locator('#prompt'),
      card: async () => {
        const card = browser.page.locator('.card.approval[data-accepts-input]').first();
        await card.waitFor();
        return card;
      },
      scrollTop,
      rest,
      fromEnd: () => box().evaluate((node) => node.scrollHeight - node.clientHeight - node.scrollTop),
      wheel: async (by) => {
        const { page } = browser;
        const start = await scrollTop();
        await page.mouse.move(200, 300);
        await page.mouse.wheel(0, by);
        await page.waitForFunction((from) => document.querySelector('.transcript')?.scrollTop !== from, start);
        await rest();
      },
    });
  });
}
