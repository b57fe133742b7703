import { beforeEach, describe, expect, it } from 'vitest';
import { splitCommand } from '../../../src/mcp/mcpServerForm.ts';
import { McpServers } from '../../../src/mcp/mcpServers.ts';
import { Keys } from '../../../src/models/keys.ts';
import { answering, memory } from '../support/server.ts';
import { input, live, picked, pressed, shown } from '../support/vscode.ts';

const TINY = { name: 'tiny', state: 'ready', place: 'tiny-server', tools: 2, inputs: ['tiny-token'] };

function rig() {
  const sent: [string, unknown][] = [];
  const answers: Record<string, unknown> = {
    'mcp/list': { servers: [TINY], file: 'file:///mcp.json' },
    'mcp/test': { ok: true, tools: [{ name: 'echo' }, { name: 'add' }] },
  };
  const failures: unknown[] = [];
  const { connection, attach, notify } = answering((method, params) => {
    const name = method.replace('pilotfish/', '');
    if (name !== 'mcp/list') sent.push([name, params]);
    return answers[name] ?? {};
  });
  const { context, secrets } = memory();
  const servers = new McpServers(connection, new Keys(context, connection), (error) => failures.push(error));
  attach();
  const tell = () => notify('pilotfish/mcp/changed');
  return { servers, sent, answers, secrets, failures, tell };
}

/** Lets everything run that was started and not awaited. */
const settle = () => new Promise((done) => setTimeout(done, 5));

beforeEach(() => {
  shown.length = 0;
  input.next = undefined;
  picked.next = undefined;
  pressed.next = undefined;
});

describe('the list of MCP servers', () => {
  it('shows the state of each, and follows it while it is open', async () => {
    const { servers, answers, tell } = rig();
    await servers.show();
    const rows = () => live.items.map(({ label, description }) => `${label} ${description ?? ''}`.trim());
    expect(rows()).toEqual(['tiny 2 tools', 'Add a server…', 'Open the configuration file']);
    answers['mcp/list'] = { servers: [{ ...TINY, state: 'failed', error: 'it died' }], file: 'file:///mcp.json' };
    tell();
    await settle();
    expect(rows()[0]).toBe('tiny not connected');
    live.hide();
    answers['mcp/list'] = { servers: [], file: 'file:///mcp.json' };
    tell();
    await settle();
    expect(rows()[0], 'a closed list asks for nothing').toBe('tiny not connected');
  });

  it('a server is added after its tools were seen, and its secret is in no file', async () => {
    const { servers, sent, secrets, failures } = rig();
    await servers.show();
    const texts: Record<string, string[]> = { 'The command line': ['"my server" --x'], 'A name': ['hub'] };
    texts['An environment variable'] = ['API TOKEN', 'LEVEL', ''];
    texts['The value'] = ['s3cret', 'debug'];
    input.next = (prompt) => texts[Object.keys(texts).find((start) => prompt.startsWith(start)) ?? '']?.shift();
    const choices = ['Program', 'It is a secret', 'It is no secret'];
    picked.next = (items) => {
      const wanted = choices.shift();
      return items.find(({ label }) => label === wanted);
    };
    pressed.next = () => 'Add';
    live.accept('Add a server…');
    await settle();
    expect(failures).toEqual([]);
    const server = {
      name: 'hub',
      command: 'my server',
      args: ['--x'],
      env: { 'API TOKEN': '$' + '{input:hub-api-token}', LEVEL: 'debug' },
      headers: {},
      transport: 'http',
      trusted: false,
    };
    expect(sent).toEqual([
      ['mcp/test', { server, inputs: { 'hub-api-token': 's3cret' } }],
      ['secret/set', { provider: 'input:hub-api-token', key: 's3cret' }],
      ['mcp/add', { server }],
    ]);
    expect([...secrets]).toEqual([['pilotfish.key.input:hub-api-token', 's3cret']]);
  });

  it('a server that does not connect is added only if the user wants that', async () => {
    const { servers, sent, answers } = rig();
    answers['mcp/test'] = { ok: false, tools: [], error: 'no answer in 10 seconds' };
    await servers.show();
    const texts: Record<string, string> = { 'The address': 'https://hub/mcp', 'A name': 'hub', 'A header': '' };
    input.next = (prompt) => texts[Object.keys(texts).find((start) => prompt.startsWith(start)) ?? ''];
    picked.next = (items) => items.find(({ label }) => label === 'Address');
    live.accept('Add a server…');
    await settle();
    expect(shown).toEqual(['The MCP server hub cannot be used.']);
    expect(sent.map(([method]) => method)).toEqual(['mcp/test']);
  });

  it.each([
    ['Switch off', undefined, [['mcp/enable', { name: 'tiny', enabled: false }]]],
    ['Restart', undefined, [['mcp/restart', { name: 'tiny' }]]],
    [
      'Remove',
      'Remove',
      [
        ['mcp/remove', { name: 'tiny' }],
        ['secret/set', { provider: 'input:tiny-token', key: '' }],
      ],
    ],
    ['Remove', undefined, []],
  ])('%s (%s)', async (action, button, expected) => {
    const { servers, sent } = rig();
    await servers.show();
    picked.next = (items) => items.find(({ label }) => label === action);
    pressed.next = () => button;
    live.accept('tiny');
    await settle();
    expect(sent).toEqual(expected);
  });
});

describe('a command line', () => {
  it.each([
    ['uvx  mcp-server-git', ['uvx', 'mcp-server-git']],
    [`"a b"c 'd "e"' ""`, ['a bc', 'd "e"', '']],
    ['', []],
    ['x "y', undefined],
  ])('%s', (line, words) => {
    expect(splitCommand(line)).toEqual(words);
  });
});
