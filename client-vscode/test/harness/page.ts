/** Shows the built chat view in a plain browser page, with a theme, and sends it messages like the host. */

import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import path from 'node:path';
import type { Page } from 'playwright-core';
import type { FromView, ToView } from '../../webview/messages.ts';

const CLIENT = path.resolve(import.meta.dirname, '../..');
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.ttf': 'font/ttf',
};

export type Theme = 'dark' | 'light' | 'hc-dark' | 'hc-light';

declare global {
  interface Window {
    say(message: ToView): void;
    posted: FromView[];
    violations: string[];
  }
}

/** Serves the client's folder on the loopback interface. */
export async function serve(): Promise<{ url: string; close(): void }> {
  const server: Server = createServer((request, response) => {
    const file = path.join(CLIENT, decodeURIComponent(new URL(request.url ?? '/', 'http://x').pathname));
    readFile(file).then(
      (body) =>
        response.writeHead(200, { 'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream' }).end(body),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { url: `http://127.0.0.1:${port}/test/harness/index.html`, close: () => server.close() };
}

export async function show(page: Page, url: string, theme: Theme, messages: readonly ToView[]): Promise<void> {
  await page.goto(url);
  await page.waitForFunction(() => window.posted.some((message) => message.type === 'ready'));
  await dress(page, theme);
  await page.evaluate(() => document.fonts.load('16px codicon'));
  await say(page, messages);
}

/** Changes the theme of the page. */
export async function dress(page: Page, theme: Theme): Promise<void> {
  await page.evaluate((name) => {
    const kind =
      name === 'hc-dark'
        ? 'vscode-high-contrast'
        : name === 'hc-light'
          ? 'vscode-high-contrast-light vscode-high-contrast'
          : `vscode-${name}`;
    document.body.className = kind;
    document.getElementById('theme')?.setAttribute('href', `/test/harness/themes/${name}.css`);
  }, theme);
  await page.waitForFunction((name) => {
    const sheet = (document.getElementById('theme') as HTMLLinkElement | null)?.sheet;
    return sheet?.href?.includes(`/${name}.css`);
  }, theme);
}

/** Sends messages like the host, and waits until each one is rendered. */
export async function say(page: Page, messages: readonly ToView[]): Promise<void> {
  await page.evaluate(async (list) => {
    await new Promise<void>((done) => {
      let left = list.length;
      const heard = () => {
        left -= 1;
        if (left > 0) return;
        removeEventListener('message', heard);
        done();
      };
      if (left === 0) done();
      else addEventListener('message', heard);
      for (const message of list) window.say(message);
    });
    for (let n = 0; n < 3; n += 1) await new Promise((done) => requestAnimationFrame(done));
  }, messages);
}

/** The messages that the view has sent, after the next frame. */
export async function posted<T extends FromView['type']>(
  page: Page,
  type: T,
): Promise<Extract<FromView, { type: T }>[]> {
  const said = await page.evaluate(async (wanted) => {
    for (let n = 0; n < 3; n += 1) await new Promise((done) => requestAnimationFrame(done));
    return window.posted.filter((message) => message.type === wanted);
  }, type);
  return said as Extract<FromView, { type: T }>[];
}
