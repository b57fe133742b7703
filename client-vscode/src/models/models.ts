/** Lets the user choose a model and set API keys. The extension stores keys only in VS Code's secret storage. */

import * as vscode from 'vscode';
import { count, modelName } from '../../webview/common/format.ts';
import type { Chat } from '../chat/chat.ts';
import type { Model } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

/** Global state: the providers that have a key in the secret storage. */
const PROVIDERS = 'pilotfish.providers';
const DEMO = 'demo';

export class Models {
  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly connection: Connection,
    private readonly chat: Chat,
  ) {}

  /** Sends the stored keys to a server that has started, and reads which model it uses. */
  async handleServerStarted(): Promise<void> {
    for (const provider of this.context.globalState.get<string[]>(PROVIDERS, [])) {
      const key = await this.context.secrets.get(secretName(provider));
      if (key !== undefined) await this.connection.request('pilotfish/secret/set', { provider, key });
    }
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
    const configure = { label: `$(gear) ${vscode.l10n.t('Configure models…')}`, action: 'settings' as const };
    const other = { label: `$(edit) ${vscode.l10n.t('Other model…')}`, action: 'other' as const };
    const items = models
      .toSorted((a, b) => rank(a, inUse) - rank(b, inUse))
      .map((model) => ({ ...this.item(model, inUse), model }));
    const ready = items.filter(({ model }) => model.available || model.id === inUse);
    const locked = items.filter((item) => !ready.includes(item));
    const separator = (label: string) => ({ label, kind: vscode.QuickPickItemKind.Separator });
    const groups = [...ready, separator(vscode.l10n.t('API key required')), ...locked];
    const picked = await vscode.window.showQuickPick([...groups, separator(''), other, configure], {
      title: vscode.l10n.t('Model'),
      placeHolder: vscode.l10n.t('Select a model'),
      matchOnDescription: true,
      matchOnDetail: true,
    });
    if (!picked) return;
    if ('model' in picked) await this.use(picked.model);
    else if ('action' in picked && picked.action === 'settings')
      await vscode.commands.executeCommand('workbench.action.openSettings', '@ext:pilotfish.pilotfish model');
    else if ('action' in picked) await this.useOther(inUse);
  }

  /** Asks for the API key of a provider, stores it and sends it to the server. */
  async setKey(provider?: string): Promise<void> {
    const name = provider ?? (await this.pickProvider());
    if (name === undefined) return;
    const key = await vscode.window.showInputBox({
      title: vscode.l10n.t('API key for {0}', name),
      prompt: vscode.l10n.t(
        'The key is stored in VS Code’s secret storage. Leave this empty to delete the stored key.',
      ),
      password: true,
      ignoreFocusOut: true,
    });
    if (key === undefined) return;
    const providers = new Set(this.context.globalState.get<string[]>(PROVIDERS, []));
    if (key === '') {
      providers.delete(name);
      await this.context.secrets.delete(secretName(name));
    } else {
      providers.add(name);
      await this.context.secrets.store(secretName(name), key);
    }
    await this.context.globalState.update(PROVIDERS, [...providers]);
    await this.connection.request('pilotfish/secret/set', { provider: name, key });
    await this.refresh();
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
    const providers = [...new Set(models.map((model) => model.provider))].filter((provider) => provider !== DEMO);
    return vscode.window.showQuickPick(providers, {
      title: vscode.l10n.t('Provider'),
      placeHolder: vscode.l10n.t('Select the provider of the key'),
    });
  }

  private item(model: Model, inUse: string): vscode.QuickPickItem {
    const details = [
      !model.label.includes(`(${model.provider})`) && model.provider,
      model.contextWindow && count(model.contextWindow),
      model.price && `$${model.price.input}/$${model.price.output}`,
      model.images === false && model.id !== DEMO && vscode.l10n.t('no images'),
      model.id === inUse && vscode.l10n.t('in use'),
    ].filter(Boolean);
    const icon = model.id === inUse ? '$(check) ' : model.available ? '' : '$(key) ';
    return {
      label: `${icon}${model.label}`,
      description: details.join(' · '),
      ...(!model.available && model.reason && { detail: model.reason }),
    };
  }

  private async use(model: Model): Promise<void> {
    if (!model.available) await this.setKey(model.provider);
    await this.activate(model.id);
  }

  private async useOther(inUse: string): Promise<void> {
    const id = await vscode.window.showInputBox({
      title: vscode.l10n.t('Model'),
      value: inUse === DEMO ? '' : inUse,
      prompt: vscode.l10n.t('Provider and model, for example openai-chat:gpt-x or ollama:qwen3'),
      ignoreFocusOut: true,
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

/** Sorts the model in use first, then the models that can be used without a new key. */
function rank(model: Model, inUse: string): number {
  return model.id === inUse ? 0 : model.available && model.id !== DEMO ? 1 : model.id === DEMO ? 2 : 3;
}

function secretName(provider: string): string {
  return `pilotfish.key.${provider}`;
}
