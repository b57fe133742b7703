/** The list of MCP servers: their state, and what can be done with each. The server keeps their configuration file. */

import * as vscode from 'vscode';
import type { Keys } from '../models/keys.ts';
import type { ListedMcpServer, McpTestParams, McpTestResult } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { LivePicker, type PickItem, pick, showDialog, withProgress } from '../widgets.ts';
import { askServer } from './mcpServerForm.ts';

type Item = PickItem & { run: () => Promise<void> };

export class McpServers {
  private picker: LivePicker<Item> | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly keys: Keys,
    private readonly report: (error: unknown) => void,
  ) {
    connection.on('pilotfish/mcp/changed', () => void this.refresh().catch(report));
  }

  /** Shows the servers. The list follows their state while it is open. */
  async show(): Promise<void> {
    const picker = new LivePicker<Item>(
      vscode.l10n.t('MCP servers'),
      vscode.l10n.t('Programs and services that give the agent more tools'),
      {
        accept: (item) => {
          picker.hide();
          void item.run().catch(this.report);
        },
        hide: () => {
          if (this.picker === picker) this.picker = undefined;
        },
      },
    );
    this.picker = picker;
    picker.show();
    await this.refresh();
  }

  private async refresh(): Promise<void> {
    const { picker } = this;
    if (!picker) return;
    const { servers, file, problem } = await this.connection.request('pilotfish/mcp/list', {});
    const add: Item = { icon: 'add', label: vscode.l10n.t('Add a server…'), run: () => this.add(servers) };
    const open: Item = {
      icon: 'go-to-file',
      label: vscode.l10n.t('Open the configuration file'),
      run: async () => void (await vscode.commands.executeCommand('vscode.open', vscode.Uri.parse(file))),
    };
    const broken: Item[] =
      problem === undefined
        ? []
        : [{ icon: 'error', label: vscode.l10n.t('The file cannot be read'), detail: problem, run: open.run }];
    picker.setItems([
      ...broken,
      ...servers.map((server) => ({ ...itemOf(server), run: () => this.manage(server) })),
      add,
      ...(servers.length > 0 ? [open] : []),
    ]);
  }

  private async add(servers: readonly ListedMcpServer[]): Promise<void> {
    const asked = await askServer(servers.map(({ name }) => name));
    if (!asked) return;
    const { server, secrets } = asked;
    const tried = await this.test({ server, inputs: secrets }, server.name);
    if (!(tried.ok ? await confirm(server.name, tried) : await confirmFailed(server.name, tried.error))) return;
    for (const [id, value] of Object.entries(secrets)) await this.keys.set(inputName(id), value);
    await this.connection.request('pilotfish/mcp/add', { server });
    await this.show();
  }

  private async manage(server: ListedMcpServer): Promise<void> {
    const { name } = server;
    const disabled = server.state === 'disabled';
    const actions: Item[] = [
      { icon: 'beaker', label: vscode.l10n.t('Test'), run: () => this.showTools(name) },
      ...(disabled
        ? []
        : [{ icon: 'refresh', label: vscode.l10n.t('Restart'), run: () => this.change('mcp/restart', { name }) }]),
      {
        icon: disabled ? 'debug-start' : 'circle-slash',
        label: disabled ? vscode.l10n.t('Switch on') : vscode.l10n.t('Switch off'),
        run: () => this.change('mcp/enable', { name, enabled: disabled }),
      },
      { icon: 'trash', label: vscode.l10n.t('Remove'), run: () => this.remove(server) },
    ];
    const picked = await pick(actions, { title: name, placeHolder: server.error ?? server.place });
    await picked?.run();
  }

  private async showTools(name: string): Promise<void> {
    const tried = await this.test({ name }, name);
    if (tried.ok) {
      await pick(toolItems(tried), {
        title: toolsTitle(name, tried),
        placeHolder: vscode.l10n.t('What the agent can do with it'),
      });
    } else {
      await showDialog('warning', notUsable(name), tried.error ?? '');
    }
    await this.show();
  }

  private async remove({ name, inputs }: ListedMcpServer): Promise<void> {
    const remove = vscode.l10n.t('Remove');
    const detail = vscode.l10n.t('It is removed from the configuration file, and its secrets from the secret storage.');
    const question = vscode.l10n.t('Remove the MCP server {0}?', name);
    if ((await showDialog('warning', question, detail, remove)) !== remove) return;
    await this.change('mcp/remove', { name });
    for (const id of inputs) await this.keys.set(inputName(id), '');
  }

  private async change(
    method: 'mcp/restart' | 'mcp/enable' | 'mcp/remove',
    params: { name: string; enabled?: boolean },
  ): Promise<void> {
    await this.connection.request(`pilotfish/${method}`, params as { name: string; enabled: boolean });
    await this.show();
  }

  private test(params: McpTestParams, name: string): Promise<McpTestResult> {
    return withProgress(vscode.l10n.t('Connecting to {0}…', name), (token) =>
      this.connection.request('pilotfish/mcp/test', params, token),
    );
  }
}

/** Shows the tools of a new server, and asks whether to add it. */
async function confirm(name: string, tried: McpTestResult): Promise<boolean> {
  const add = vscode.l10n.t('Add');
  const tools = tried.tools.map((tool) => tool.name).join(', ');
  return (await showDialog('info', toolsTitle(name, tried), tools, add)) === add;
}

async function confirmFailed(name: string, reason: string | undefined): Promise<boolean> {
  const anyway = vscode.l10n.t('Add it anyway');
  return (await showDialog('warning', notUsable(name), reason ?? '', anyway)) === anyway;
}

function notUsable(name: string): string {
  return vscode.l10n.t('The MCP server {0} cannot be used.', name);
}

function toolsTitle(name: string, { tools }: McpTestResult): string {
  return tools.length === 1 ? vscode.l10n.t('{0}: 1 tool', name) : vscode.l10n.t('{0}: {1} tools', name, tools.length);
}

function toolItems({ tools }: McpTestResult): readonly PickItem[] {
  return tools.map(({ name, description }) => ({
    label: name,
    icon: 'tools',
    ...(description !== undefined && { detail: description }),
  }));
}

function itemOf(server: ListedMcpServer): PickItem {
  const { icon, words } = stateOf(server);
  const detail = server.state === 'failed' && server.error !== undefined ? server.error : server.place;
  return { label: server.name, description: words, icon, detail };
}

function stateOf({ state, tools }: ListedMcpServer): { icon: string; words: string } {
  switch (state) {
    case 'ready': {
      const words = tools === 1 ? vscode.l10n.t('1 tool') : vscode.l10n.t('{0} tools', tools);
      return { icon: 'pass', words };
    }
    case 'connecting':
      return { icon: 'loading~spin', words: vscode.l10n.t('connecting') };
    case 'failed':
      return { icon: 'error', words: vscode.l10n.t('not connected') };
    case 'disabled':
      return { icon: 'circle-slash', words: vscode.l10n.t('switched off') };
    case 'stopped':
      return { icon: 'circle-outline', words: vscode.l10n.t('starts in a trusted folder') };
    default:
      return state satisfies never;
  }
}

/** The name under which the server is told a secret of an entry. */
function inputName(id: string): string {
  return `input:${id}`;
}
