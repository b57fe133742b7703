/**
 * The form for servers of models at an address of their own: name, address, API and key, tried at once.
 *
 * The server stores endpoints in the user's `config.toml`, so that other clients use them too. Keys stay here.
 */

import * as vscode from 'vscode';
import { count } from '../../webview/common/format.ts';
import type { EndpointEntry, EndpointTestParams, Failure, ListedEndpoint, Model } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { askText, type PickItem, pick, showDialog, withProgress } from '../widgets.ts';
import type { Keys } from './keys.ts';

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** What the user has entered. */
interface Entered {
  endpoint: EndpointEntry;
  /** empty: none, or the stored one */
  key: string;
}

export class Endpoints {
  constructor(
    private readonly connection: Connection,
    private readonly keys: Keys,
    /** uses a model in the session in view and in new ones */
    private readonly useModel: (id: string) => Promise<void>,
  ) {}

  async list(): Promise<readonly ListedEndpoint[]> {
    return (await this.connection.request('pilotfish/endpoint/list', {})).endpoints;
  }

  /** Asks for a new endpoint, tries it, stores it, and asks which of its models to use. */
  async add(): Promise<void> {
    const entered = await this.ask(undefined);
    if (entered) await this.chooseModel(entered.endpoint);
  }

  /** Asks what to do with an endpoint. */
  async manage(endpoint: ListedEndpoint): Promise<void> {
    const use = { icon: 'list-selection', label: vscode.l10n.t('Use one of its models…'), action: 'use' as const };
    const edit = { icon: 'edit', label: vscode.l10n.t('Edit…'), action: 'edit' as const };
    const remove = { icon: 'trash', label: vscode.l10n.t('Remove'), action: 'remove' as const };
    const picked = await pick(endpoint.stored ? [use, edit, remove] : [use], {
      title: endpoint.name,
      placeHolder: endpoint.stored ? endpoint.url : vscode.l10n.t('{0} (from the settings)', endpoint.url),
    });
    if (picked?.action === 'use') await this.chooseModel(endpoint);
    if (picked?.action === 'edit') {
      const entered = await this.ask(endpoint);
      if (entered) await this.chooseModel(entered.endpoint);
    }
    if (picked?.action === 'remove') await this.remove(endpoint.name);
  }

  /** Whether a model answers. If it does not, the user sees what the provider says and may go on. */
  async answers(params: EndpointTestParams, shown: string): Promise<'yes' | 'again' | 'anyway' | 'no'> {
    const error = await this.failureOf(params, shown);
    return error ? askAboutFailure(error, vscode.l10n.t('Use it anyway')) : 'yes';
  }

  private async failureOf(params: EndpointTestParams, shown: string): Promise<Failure | undefined> {
    const { ok, error } = await withProgress(vscode.l10n.t('Trying {0}…', shown), (token) =>
      this.connection.request('pilotfish/endpoint/test', params, token),
    );
    return ok ? undefined : error;
  }

  private async remove(name: string): Promise<void> {
    const remove = vscode.l10n.t('Remove');
    const detail = vscode.l10n.t('It is removed from your config.toml, and its key from the secret storage.');
    const question = vscode.l10n.t('Remove the endpoint {0}?', name);
    if ((await showDialog('warning', question, detail, remove)) !== remove) return;
    await this.connection.request('pilotfish/endpoint/remove', { name });
    await this.keys.set(name, '');
  }

  /** The steps of the form, again with what was entered if it does not work. Stores the endpoint and its key. */
  private async ask(before: ListedEndpoint | undefined): Promise<Entered | undefined> {
    let entered: Entered = {
      endpoint: before ? entryOf(before) : { name: '', url: '', api: 'chat' },
      key: '',
    };
    for (;;) {
      const next = await this.askFields(entered, before);
      if (!next) return undefined;
      entered = next;
      const { endpoint, key } = entered;
      const tried = await withProgress(vscode.l10n.t('Trying {0}…', endpoint.url), (token) =>
        this.connection.request('pilotfish/endpoint/test', { endpoint, ...(key !== '' && { key }) }, token),
      );
      const answer = tried.error ? await askAboutFailure(tried.error, vscode.l10n.t('Save anyway')) : 'yes';
      if (answer === 'no') return undefined;
      if (answer !== 'again') break;
    }
    const { endpoint, key } = entered;
    await this.connection.request('pilotfish/endpoint/add', { endpoint });
    if (key !== '') await this.keys.set(endpoint.name, key);
    return entered;
  }

  private async askFields(
    { endpoint, key }: Entered,
    before: ListedEndpoint | undefined,
  ): Promise<Entered | undefined> {
    const taken = new Set((await this.list()).map(({ name }) => name));
    const title = before ? vscode.l10n.t('Endpoint {0}', before.name) : vscode.l10n.t('Custom endpoint');
    const name = before
      ? before.name
      : await askText({
          title,
          value: endpoint.name,
          prompt: vscode.l10n.t('A name, which begins the names of its models: name:model'),
          placeHolder: 'gateway',
          validate: (text) =>
            taken.has(text)
              ? vscode.l10n.t('There is an endpoint of this name.')
              : NAME.test(text)
                ? undefined
                : vscode.l10n.t('Letters, digits, “.”, “_” and “-”.'),
        });
    if (name === undefined) return undefined;
    const url = await askText({
      title,
      value: endpoint.url,
      prompt: vscode.l10n.t('The address of its API'),
      placeHolder: 'https://gateway.example/v1',
      validate: (text) => (/^https?:\/\/[^/?#\s]+\S*$/.test(text) ? undefined : vscode.l10n.t('An http address.')),
    });
    if (url === undefined) return undefined;
    const api = await pick(apis(endpoint.api), { title, placeHolder: vscode.l10n.t('Select the API that it speaks') });
    if (!api) return undefined;
    const entered = await askText({
      title,
      value: key,
      password: true,
      prompt: before?.hasKey
        ? vscode.l10n.t('Its API key. Leave this empty to keep the stored key.')
        : vscode.l10n.t('Its API key, stored in VS Code’s secret storage. Leave this empty if it needs none.'),
    });
    if (entered === undefined) return undefined;
    const { keyVariable } = endpoint;
    return {
      endpoint: { name, url, api: api.api, ...(keyVariable !== undefined && { keyVariable }) },
      key: entered.trim(),
    };
  }

  /** Asks for a model of a stored endpoint, tries it with one small request, and uses it. Many servers list their models
   * for any key, so a wrong key is found here, and asked for again. */
  private async chooseModel(listed: EndpointEntry): Promise<void> {
    const endpoint = entryOf(listed);
    const { models } = await this.connection.request('pilotfish/endpoint/test', { endpoint });
    for (let name: string | undefined; ; ) {
      name ??= await this.pickModel(endpoint.name, models ?? []);
      if (name === undefined) return;
      const error = await this.failureOf({ endpoint, model: name }, `${endpoint.name}:${name}`);
      const answer = error ? await askAboutFailure(error, vscode.l10n.t('Use it anyway')) : 'yes';
      if (answer === 'no') return;
      if (answer !== 'again') return this.useModel(`${endpoint.name}:${name}`);
      if (error?.kind !== 'authentication') name = undefined;
      else if (!(await this.askKey(endpoint.name))) return;
    }
  }

  private async askKey(name: string): Promise<boolean> {
    const key = await askText({
      title: vscode.l10n.t('Endpoint {0}', name),
      prompt: vscode.l10n.t('API key for {0}', name),
      password: true,
    });
    if (!key?.trim()) return false;
    await this.keys.set(name, key.trim());
    return true;
  }

  private async pickModel(endpoint: string, models: readonly Model[]): Promise<string | undefined> {
    const other: PickItem & { name?: string } = { icon: 'edit', label: vscode.l10n.t('Other model…') };
    const items = models.map((model) => ({
      label: model.id.slice(endpoint.length + 1),
      name: model.id.slice(endpoint.length + 1),
      ...(model.contextWindow !== undefined && { description: count(model.contextWindow) }),
      ...(model.warning !== undefined && { detail: model.warning }),
    }));
    const title = vscode.l10n.t('Models of {0}', endpoint);
    if (items.length > 0) {
      const picked = await pick([...items, other], { title, placeHolder: vscode.l10n.t('Select a model') });
      if (!picked) return undefined;
      if (picked.name !== undefined) return picked.name;
    }
    const typed = await askText({
      title,
      prompt: items.length > 0 ? vscode.l10n.t('The name of a model') : vscode.l10n.t('It lists no models: name one.'),
    });
    return typed?.trim() || undefined;
  }
}

function entryOf({ name, url, api, keyVariable }: EndpointEntry): EndpointEntry {
  return { name, url, ...(api && { api }), ...(keyVariable !== undefined && { keyVariable }) };
}

type Api = NonNullable<EndpointEntry['api']>;

function apis(inUse: Api = 'chat'): readonly (PickItem & { api: Api })[] {
  const all: readonly (PickItem & { api: Api })[] = [
    {
      api: 'chat',
      label: 'OpenAI Chat Completions',
      detail: vscode.l10n.t('What most gateways and local servers speak: vLLM, LiteLLM, LM Studio, llama.cpp …'),
    },
    { api: 'responses', label: 'OpenAI Responses' },
    { api: 'anthropic', label: 'Anthropic Messages' },
    { api: 'google', label: 'Google Gemini' },
  ];
  return all.toSorted((a, b) => Number(b.api === inUse) - Number(a.api === inUse));
}

/** Shows what the provider said, and asks whether to go on. */
async function askAboutFailure(error: Failure, goOn: string): Promise<'again' | 'anyway' | 'no'> {
  const again = vscode.l10n.t('Change it…');
  const pressed = await showDialog('warning', error.message, error.remedy, again, goOn);
  return pressed === again ? 'again' : pressed === goOn ? 'anyway' : 'no';
}
