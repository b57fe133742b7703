/** Lets the user choose a model, connect providers and set their API keys. */

import * as vscode from 'vscode';
import { count, modelName } from '../../webview/common/format.ts';
import type { Chat } from '../chat/chat.ts';
import type { LongTask } from '../chat/longTask.ts';
import type { Model } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import type { Server } from '../server/server.ts';
import { askText, type PickItem, pick } from '../widgets.ts';
import { Endpoints } from './endpoints.ts';
import type { Keys } from './keys.ts';
import { PREFIX } from './languageModels.ts';
import { isLocalModel, LocalModels } from './localModels.ts';

const DEMO = 'demo';
/** Where a user gets a key, by provider. */
const KEY_PAGES: Readonly<Record<string, string>> = {
  anthropic: 'https://console.anthropic.com/settings/keys',
  openai: 'https://platform.openai.com/api-keys',
  google: 'https://aistudio.google.com/apikey',
  openrouter: 'https://openrouter.ai/keys',
  mistral: 'https://console.mistral.ai/api-keys',
  groq: 'https://console.groq.com/keys',
};

/** Providers that the server knows, and whose models it does not list. */
const UNLISTED = ['OpenRouter'];

export class Models {
  private readonly endpoints: Endpoints;
  private readonly local: LocalModels;

  constructor(
    private readonly keys: Keys,
    private readonly connection: Connection,
    private readonly chat: Chat,
    server: Pick<Server, 'installLocalModels' | 'onProgress'>,
    task: LongTask,
  ) {
    this.endpoints = new Endpoints(connection, keys, (model) => this.activate(model));
    this.local = new LocalModels(connection, server, task, (model) => this.activate(model));
  }

  /** Sends the stored keys to a server that has started, and reads which model it uses. */
  async handleServerStarted(): Promise<void> {
    await this.keys.sendAll();
    await this.refresh();
  }

  /** Reads the current model from the server and shows it. */
  async refresh(): Promise<void> {
    if (!this.connection.connected) return;
    const { models, current } = await this.connection.request('pilotfish/model/list', {});
    const id = this.chat.session?.model ?? current;
    const model = models.find((one) => one.id === id);
    this.chat.setModel({
      current: id,
      label: model?.label ?? modelName(id),
      available: model?.available ?? true,
      demo: id === DEMO,
      ...(model?.reason !== undefined && { reason: model.reason }),
      ...(model?.images !== undefined && { seesImages: model.images }),
    });
  }

  /** Asks which model to use. */
  async select(): Promise<void> {
    const { models, current } = await this.connection.request('pilotfish/model/list', {});
    const inUse = this.chat.session?.model ?? current;
    const configure = { icon: 'gear', label: vscode.l10n.t('Configure models…'), action: 'settings' as const };
    const other = { icon: 'edit', label: vscode.l10n.t('Other model…'), action: 'other' as const };
    const connect = { icon: 'plug', label: vscode.l10n.t('Connect a model…'), action: 'connect' as const };
    const thinking = {
      icon: 'lightbulb',
      label: vscode.l10n.t('Thinking effort…'),
      description: thinkingTitle(thinkingSetting()),
      action: 'thinking' as const,
    };
    const all = models
      .toSorted((a, b) => rank(a, inUse) - rank(b, inUse))
      .map((model) => ({ ...this.item(model, inUse), model }));
    const ready = all.filter(({ model }) => model.available || model.id === inUse);
    const locked = all.filter((item) => !ready.includes(item));
    const groups = [...ready, { separator: vscode.l10n.t('API key required') }, ...locked];
    // Who has no model yet looks for a way to connect one, not for a name in a long list.
    const [above, below] = inUse === DEMO ? [[connect], []] : [[], [connect]];
    const picked = await pick([...above, ...groups, { separator: '' }, ...below, thinking, other, configure], {
      title: vscode.l10n.t('Model'),
      placeHolder: vscode.l10n.t('Select a model'),
    });
    if (!picked) return;
    if ('model' in picked) await this.use(picked.model);
    else if (picked.action === 'connect') await this.connect();
    else if (picked.action === 'thinking') await this.selectThinking();
    else if (picked.action === 'other') await this.useOther(inUse);
    else await vscode.commands.executeCommand('workbench.action.openSettings', '@ext:pilotfish.pilotfish model');
  }

  /** Asks what to connect: a provider with its key, or an endpoint. Then asks which of its models to use. */
  async connect(): Promise<void> {
    const picked = await this.pickConnection();
    if (!picked) return;
    if (picked.connect) await picked.connect();
    else await this.connectProvider(picked.label);
  }

  /** Asks for the key of a provider and for one of its models. */
  private connectProvider(name: string): Promise<void> {
    return this.connectWithKey(name, async () => {
      const own = await this.pickModel(name, (model) => model.provider === name);
      return own === 'none' ? this.askModelOf(name) : own;
    });
  }

  /** Asks for one of the models that VS Code serves. They need no key. */
  private async connectEditor(): Promise<void> {
    const id = await this.pickModel(vscode.l10n.t('VS Code’s language models'), isOfEditor);
    if (id !== undefined && id !== 'none') await this.activate(id);
  }

  private async pickModel(name: string, wanted: (model: Model) => boolean): Promise<string | 'none' | undefined> {
    const { models, current } = await this.connection.request('pilotfish/model/list', {});
    const inUse = this.chat.session?.model ?? current;
    const own = models.filter(wanted);
    if (own.length === 0) return 'none';
    const picked = await pick(
      own.map((model) => ({ ...this.item(model, inUse), model })),
      { title: vscode.l10n.t('Models of {0}', name), placeHolder: vscode.l10n.t('Select a model') },
    );
    return picked?.model.id;
  }

  /** Asks for a model of a provider that has too many to list. */
  private async askModelOf(name: string): Promise<string | undefined> {
    const model = await askText({
      title: vscode.l10n.t('Models of {0}', name),
      prompt: vscode.l10n.t('The name of a model, as {0} writes it', name),
    });
    return model?.trim() ? `${name.toLowerCase()}:${model.trim()}` : undefined;
  }

  /** Asks for a key and then for a model, tries the model at once, and uses it. A wrong key is asked for again. */
  private async connectWithKey(provider: string, choose: () => Promise<string | undefined>): Promise<void> {
    for (;;) {
      if (!(await this.setKey(provider))) return;
      const id = await choose();
      if (id === undefined) return;
      const answer = await this.endpoints.answers({ model: id }, id);
      if (answer === 'no') return;
      if (answer === 'again') continue;
      await this.activate(id);
      return;
    }
  }

  /** Asks how much the model thinks before it answers. */
  async selectThinking(): Promise<void> {
    const inUse = thinkingSetting();
    const picked = await pick(
      THINKING.map((value) => ({ label: thinkingTitle(value), value, ...(value === inUse && { icon: 'check' }) })),
      { title: vscode.l10n.t('Thinking effort'), placeHolder: vscode.l10n.t('Used if the model supports it') },
    );
    if (!picked) return;
    const settings = vscode.workspace.getConfiguration('pilotfish');
    await settings.update('thinking', picked.value ?? undefined, vscode.ConfigurationTarget.Global);
  }

  /** Asks for the API key of a provider, stores it and sends it to the server. Returns whether there is a key now. */
  async setKey(provider?: string): Promise<boolean> {
    const name = provider ?? (await this.pickProvider());
    if (name === undefined) return false;
    const page = KEY_PAGES[name.toLowerCase()];
    const stored = vscode.l10n.t(
      'The key is stored in VS Code’s secret storage. Leave this empty to delete the stored key.',
    );
    const entered = await askText({
      title: vscode.l10n.t('API key for {0}', name),
      prompt: page === undefined ? stored : `${vscode.l10n.t('Get a key at {0}.', page)} ${stored}`,
      password: true,
    });
    if (entered === undefined) return false;
    const key = entered.trim();
    await this.keys.set(name, key);
    await this.refresh();
    return key !== '';
  }

  /** Asks for a new key of the provider whose model is in use, after the provider rejected the key. */
  async updateKey(): Promise<void> {
    const { models, current } = await this.connection.request('pilotfish/model/list', {});
    const inUse = this.chat.session?.model ?? current;
    const provider = models.find((model) => model.id === inUse)?.provider ?? inUse.split(':', 1)[0];
    await this.setKey(provider === DEMO ? undefined : provider);
  }

  private async pickProvider(): Promise<string | undefined> {
    const { models } = await this.connection.request('pilotfish/model/list', {});
    const picked = await pick(this.providers(models), {
      title: vscode.l10n.t('Provider'),
      placeHolder: vscode.l10n.t('Select the provider of the key'),
    });
    return picked?.label;
  }

  /** Providers, the user's own endpoints, and a new endpoint. */
  private async pickConnection(): Promise<Connectable | undefined> {
    const [{ models }, endpoints] = await Promise.all([
      this.connection.request('pilotfish/model/list', {}),
      this.endpoints.list(),
    ]);
    const own = endpoints.map((endpoint) => ({
      icon: 'server',
      label: endpoint.name,
      description: endpoint.url,
      connect: () => this.endpoints.manage(endpoint),
    }));
    const custom = {
      icon: 'add',
      label: vscode.l10n.t('Custom endpoint…'),
      description: vscode.l10n.t('a gateway or server at an address of its own'),
      connect: () => this.endpoints.add(),
    };
    const ofEditor = models.some(isOfEditor)
      ? [{ icon: 'check', label: vscode.l10n.t('VS Code’s language models'), connect: () => this.connectEditor() }]
      : [];
    const local = {
      icon: 'device-desktop',
      label: vscode.l10n.t('On this machine, nothing leaves it'),
      description: vscode.l10n.t('a small model, about 1 GB'),
      connect: () => this.local.connect(),
    };
    const named = new Set(endpoints.map(({ name }) => name));
    const providers: readonly Connectable[] = this.providers(models).filter(({ label }) => !named.has(label));
    const first = providers.filter(({ description, icon }) => description !== undefined || icon === 'check');
    const others = providers.filter((provider) => !first.includes(provider));
    const more = others.length > 0 ? [{ separator: vscode.l10n.t('More providers') }, ...others] : [];
    return pick<Connectable>([...own, ...ofEditor, ...first, local, custom, ...more], {
      title: vscode.l10n.t('Connect a model'),
      placeHolder: vscode.l10n.t('Select who serves the model'),
    });
  }

  private providers(models: readonly Model[]): readonly PickItem[] {
    const hosted = models.filter((model) => !isLocalModel(model) && !isOfEditor(model));
    const names = [...new Set([...hosted.map((model) => model.provider), ...UNLISTED])].filter((name) => name !== DEMO);
    return names.map((provider) => {
      const available = models.some((model) => model.provider === provider && model.available);
      const page = KEY_PAGES[provider.toLowerCase()];
      return {
        label: provider,
        icon: available ? 'check' : 'key',
        ...(page !== undefined && { description: page }),
      };
    });
  }

  private item(model: Model, inUse: string): PickItem {
    const details = [
      !model.label.includes(`(${model.provider})`) && model.provider,
      model.contextWindow && count(model.contextWindow),
      priceTitle(model),
      model.tools === false && vscode.l10n.t('no tool calls'),
      model.images === false && model.id !== DEMO && vscode.l10n.t('no images'),
      model.id === inUse && vscode.l10n.t('in use'),
    ].filter(Boolean);
    const icon = model.id === inUse ? 'check' : model.available ? undefined : 'key';
    return {
      label: model.label,
      ...(icon !== undefined && { icon }),
      description: details.join(' · '),
      ...(!model.available && model.reason && { detail: model.reason }),
      ...(model.available && model.warning && { detail: model.warning }),
    };
  }

  private async use(model: Model): Promise<void> {
    if (isLocalModel(model)) return this.local.use(model);
    if (model.available || isOfEditor(model)) await this.activate(model.id);
    else await this.connectWithKey(model.provider, async () => model.id);
  }

  private async useOther(inUse: string): Promise<void> {
    const id = await askText({
      title: vscode.l10n.t('Model'),
      value: inUse === DEMO ? '' : inUse,
      prompt: vscode.l10n.t('Provider and model, for example openai-chat:gpt-x or ollama:qwen3'),
    });
    if (id) await this.activate(id.trim());
  }

  /** Uses the model in the session in view and in new sessions. */
  private async activate(model: string): Promise<void> {
    await vscode.workspace.getConfiguration('pilotfish').update('model', model, vscode.ConfigurationTarget.Global);
    if (this.chat.session) {
      const { session } = await this.connection.request('pilotfish/session/configure', {
        sessionId: this.chat.session.id,
        model,
      });
      this.chat.updateSession(session);
      // A turn may be waiting to retry with the previous model: retry with the new model now.
      if (session.busy) await this.connection.request('pilotfish/session/retry', { sessionId: session.id });
    }
    await this.refresh();
  }
}

/** An item of the list of what can be connected; without `connect` it is a provider that needs a key. */
type Connectable = PickItem & { connect?: () => Promise<void> };

function isOfEditor(model: Model): boolean {
  return model.id.startsWith(PREFIX);
}

type Thinking = 'off' | 'low' | 'medium' | 'high' | null;
const THINKING: readonly Thinking[] = [null, 'off', 'low', 'medium', 'high'];

function thinkingSetting(): Thinking {
  return vscode.workspace.getConfiguration('pilotfish').get<Thinking>('thinking', null);
}

function thinkingTitle(value: Thinking): string {
  switch (value) {
    case null:
      return vscode.l10n.t('The model’s default');
    case 'off':
      return vscode.l10n.t('Off');
    case 'low':
      return vscode.l10n.t('Low');
    case 'medium':
      return vscode.l10n.t('Medium');
    case 'high':
      return vscode.l10n.t('High');
    default:
      return value satisfies never;
  }
}

/** US dollars per million tokens of input and output. */
function priceTitle(model: Model): string | undefined {
  if (model.price) return `$${model.price.input}/$${model.price.output}`;
  return model.local || !model.available ? undefined : vscode.l10n.t('price unknown');
}

/** Sorts the model in use first, then the models that can be used without a new key. */
function rank(model: Model, inUse: string): number {
  return model.id === inUse ? 0 : model.available && model.id !== DEMO ? 1 : model.id === DEMO ? 2 : 3;
}
