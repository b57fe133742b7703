/** Connecting without writing a file by hand: a sample project, an endpoint of models, an MCP server. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Workbench } from './support/browser.ts';
import { story } from './support/story.ts';
import { ROOT } from './support/vscode.ts';
import type { World } from './support/world.ts';

const settings = { 'pilotfish.model': 'demo', 'pilotfish.baseUrl': '' };
const NARROW = { width: 500, height: 800 };
const WIDE = { width: 1280, height: 800 };

/** Fills the input box whose prompt contains these words, and goes on. */
async function type({ page }: Workbench, prompt: string, text: string): Promise<void> {
  await page.locator('.quick-input-message', { hasText: prompt }).waitFor();
  await page.locator('.quick-input-widget .quick-input-box input').fill(text);
  await page.keyboard.press('Enter');
}

async function press({ page }: Workbench, button: string): Promise<void> {
  await page.locator('.monaco-dialog-box').getByRole('button', { name: button, exact: true }).click();
  await page.locator('.monaco-dialog-box').waitFor({ state: 'hidden' });
}

/** A screenshot of the window, wide and narrow. */
async function shots(workbench: Workbench, name: string): Promise<void> {
  await workbench.shot(name);
  await workbench.page.setViewportSize(NARROW);
  await workbench.shot(`${name}-narrow`);
  await workbench.page.setViewportSize(WIDE);
}

const row = ({ page }: Workbench, text: string) =>
  page.locator('.quick-input-list .monaco-list-row', { hasText: text }).first();

story('an endpoint of models', { settings }, (step) => {
  const begin = async ({ workbench }: World) => {
    await workbench.button('Connect a model').click();
    await workbench.quickPick('Connect a model…');
  };

  step('the button opens a sample project in a window of its own', async ({ workbench, folder, browser }) => {
    await workbench.open(folder);
    await workbench.showChat();
    const opened = browser.context.waitForEvent('page');
    await workbench.button('Try it in a sample project').click();
    const sample = new Workbench(await opened, '');
    await sample.page.locator('.explorer-folders-view .monaco-list-row', { hasText: '.py' }).first().waitFor();
    await sample.shot('60-sample');
    await sample.page.close();
  });

  step('a wrong address is said at once, and corrected', async (world) => {
    const { workbench, provider } = world;
    await begin(world);
    await row(workbench, 'On this machine, nothing leaves it').waitFor();
    await row(workbench, 'Custom endpoint…').waitFor();
    await shots(workbench, '61-connect');
    await workbench.quickPick('Custom endpoint…');
    await type(workbench, 'A name', 'gateway');
    await type(workbench, 'The address', 'http://127.0.0.1:9/v1');
    await shots(workbench, '62-api');
    await workbench.quickPick('OpenAI Chat Completions');
    await type(workbench, 'Its API key', 'sk-gateway');
    await workbench.page.locator('.monaco-dialog-box', { hasText: 'could not be reached' }).waitFor();
    await shots(workbench, '63-unreachable');
    assert.equal(await world.config(), '', 'nothing is stored yet');
    await press(workbench, 'Change it…');
    await type(workbench, 'A name', 'gateway');
    await type(workbench, 'The address', provider.url);
    await workbench.quickPick('OpenAI Chat Completions');
    await workbench.page.locator('.quick-input-message', { hasText: 'Its API key' }).waitFor();
    await workbench.page.keyboard.press('Enter'); // the key is still there
  });

  step('its models are listed, and the chosen one is tried and used', async (world) => {
    const { workbench, provider } = world;
    await row(workbench, 'scripted').waitFor();
    await shots(workbench, '64-models');
    await provider.script({ text: 'OK' }, { text: 'Hello from the gateway.' });
    await workbench.quickPick('scripted');
    await workbench.status('scripted');
    await workbench.ask('Hello');
    await workbench.ended(1);
    await workbench.chat.getByText('Hello from the gateway.').waitFor();
    assert.match((await provider.requests()).at(-1) ?? '', /Bearer sk-gateway/);
    const config = await world.config();
    assert.match(config, /\[\[endpoints\]\]\nname = "gateway"/);
    assert.doesNotMatch(config, /sk-gateway/);
  });

  step('the endpoint works after a restart, and is removed', async (world) => {
    const { workbench, provider } = world;
    await workbench.reload();
    await workbench.showChat();
    await provider.script({ text: 'Still here.' });
    await workbench.ask('And now?');
    await workbench.chat.getByText('Still here.').waitFor();
    await workbench.command('Pilotfish: Select Model');
    await row(workbench, 'in use').waitFor();
    await workbench.page.locator('.quick-input-widget input').first().fill('Connect');
    await workbench.quickPick('Connect a model…');
    await workbench.quickPick('gateway');
    await row(workbench, 'Edit…').waitFor();
    await workbench.quickPick('Remove');
    await press(workbench, 'Remove');
    await assert.doesNotReject(async () => {
      for (let attempt = 0; (await world.config()).includes('gateway'); attempt += 1) {
        if (attempt === 50) throw new Error('it is still stored');
        await workbench.page.waitForTimeout(100);
      }
    });
  });
});

story('MCP servers', { trust: true }, (step) => {
  const python = path.join(ROOT, '.venv/bin/python');
  const server = path.join(ROOT, 'tests/support/mcp_server.py');
  const open = async ({ workbench }: World) => workbench.command('Pilotfish: MCP Servers…');

  step('a server is added after its tools were seen', async (world) => {
    const { workbench, folder } = world;
    await workbench.open(folder);
    await workbench.showChat();
    await workbench.status('Ask first');
    await open(world);
    await workbench.quickPick('Add a server…');
    await shots(workbench, '65-mcp-kind');
    await workbench.quickPick('Program');
    await type(workbench, 'The command line', `${python} ${server}`);
    await type(workbench, 'A name', 'tiny');
    await type(workbench, 'An environment variable', 'TOKEN');
    await type(workbench, 'The value of TOKEN', 's3cret');
    await workbench.quickPick('It is a secret');
    await type(workbench, 'An environment variable', '');
    await workbench.page.locator('.monaco-dialog-box', { hasText: 'echo' }).waitFor();
    await shots(workbench, '66-mcp-tools');
    await press(workbench, 'Add');
    await row(workbench, '8 tools').waitFor();
    await shots(workbench, '67-mcp-list');
    await workbench.page.keyboard.press('Escape');
    const config = path.join(path.dirname(folder), 'mcp.json');
    const text = await readFile(config, 'utf8');
    assert.match(text, /\$\{input:tiny-token\}/);
    assert.doesNotMatch(text, /s3cret/);
  });

  step('the agent uses it, also after a restart', async ({ workbench, provider }) => {
    await workbench.reload();
    await workbench.showChat();
    await provider.script({ calls: [{ name: 'tiny_echo', args: { text: 'hello' } }] }, { text: 'It said hello.' });
    await workbench.ask('Use the tool');
    await workbench.card.waitFor();
    await workbench.page.waitForTimeout(1000); // a new card ignores input
    await workbench.button('Allow').click();
    await workbench.chat.getByText('It said hello.').waitFor();
    assert.match((await provider.requests()).at(-1) ?? '', /again: hello/);
  });

  step('it is tested, switched off and removed', async (world) => {
    const { workbench } = world;
    await open(world);
    await workbench.quickPick('tiny');
    await row(workbench, 'Switch off').waitFor(); // the path of the server contains "test" too
    await workbench.quickPick('Test');
    await row(workbench, 'Says it again.').waitFor();
    await shots(workbench, '68-mcp-test');
    await workbench.page.keyboard.press('Escape');
    await workbench.quickPick('tiny');
    await workbench.quickPick('Switch off');
    await row(workbench, 'switched off').waitFor();
    await workbench.quickPick('tiny');
    await workbench.quickPick('Remove');
    await press(workbench, 'Remove');
    await row(workbench, 'Add a server…').waitFor();
    assert.equal(await row(workbench, 'tiny').count(), 0);
  });
});
