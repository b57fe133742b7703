/** Choosing a model and a mode, and handing over keys. Keys live in VS Code's secret store and nowhere else of ours. */

import * as vscode from 'vscode';
import { count, modelName } from '../../webview/common/format.ts';
import type { Chat } from '../chat/chat.ts';
import type { Mode, Model } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { modeTitle } from '../statusBar.ts';

const PROVIDERS = 'pilotfish.providers';
const DEMO = 'demo';

export class Models {
  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly connection: Connection,
    private readonly chat: Chat,
  ) {}

  /** The server is there: it gets the keys it may need, and says which model is in use. */
  async connected(): Promise<void> {
    for (const provider of this.context.globalState.get<string[]>(PROVIDERS, [])) {
      const key = await this.context.secrets.get(secretName(provider));
      if (key !== undefined) await this.connection.request('pilotfish/secret/set', { provider, key });
    }
    await this.refresh();
  }

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

  async select(): Promise<void> {
    const { models, current } = await this.connection.request('pilotfish/model/list', {});
    const inUse = this.chat.session?.model ?? current;
    const configure = { label: `$(gear) ${vscode.l10n.t('Configure models…')}`, do: 'settings' as const };
    const other = { label: `$(edit) ${vscode.l10n.t('Another model…')}`, do: 'other' as const };
    const items = models
      .toSorted((a, b) => rank(a, inUse) - rank(b, inUse))
      .map((model) => ({ ...this.item(model, inUse), model }));
    const ready = items.filter(({ model }) => model.available || model.id === inUse);
    const locked = items.filter((item) => !ready.includes(item));
    const separator = (label: string) => ({ label, kind: vscode.QuickPickItemKind.Separator });
    const groups = [...ready, separator(vscode.l10n.t('need a key')), ...locked];
    const picked = await vscode.window.showQuickPick([...groups, separator(''), other, configure], {
      title: vscode.l10n.t('Model'),
      placeHolder: vscode.l10n.t('Which model answers'),
      matchOnDescription: true,
      matchOnDetail: true,
    });
    if (!picked) return;
    if ('model' in picked) await this.use(picked.model);
    else if ('do' in picked && picked.do === 'settings')
      await vscode.commands.executeCommand('workbench.action.openSettings', '@ext:pilotfish.pilotfish model');
    else if ('do' in picked) await this.useOther(inUse);
  }

  async selectMode(): Promise<void> {
    const modes: readonly [Mode, string][] = [
      ['ask', vscode.l10n.t('Asks before every edit and command.')],
      ['plan', vscode.l10n.t('Reads and plans; changes and runs nothing.')],
      ['edit', vscode.l10n.t('Edits in the workspace without asking; asks before commands.')],
      ['auto', vscode.l10n.t('Runs without asking, unless a rule says otherwise.')],
    ];
    const now = this.chat.session?.mode ?? this.chat.mode;
    const picked = await vscode.window.showQuickPick(
      modes.map(([mode, detail]) => ({
        label: modeTitle(mode),
        detail,
        mode,
        ...(mode === now && { description: vscode.l10n.t('in use') }),
      })),
      { title: vscode.l10n.t('Mode'), placeHolder: vscode.l10n.t('What may happen without asking') },
    );
    if (!picked) return;
    if (!this.chat.session) {
      this.chat.setMode(picked.mode);
      return;
    }
    const { session } = await this.connection.request('pilotfish/session/configure', {
      sessionId: this.chat.session.id,
      mode: picked.mode,
    });
    this.chat.noted(session);
    this.chat.setMode(picked.mode);
  }

  /** Mode or model: for a view too narrow to show both. */
  async configure(): Promise<void> {
    const items = [
      { label: vscode.l10n.t('Mode'), description: modeTitle(this.chat.session?.mode ?? this.chat.mode), it: 'mode' },
      { label: vscode.l10n.t('Model'), description: this.chat.model?.label ?? '', it: 'model' },
    ];
    const picked = await vscode.window.showQuickPick(items, { title: 'Pilotfish' });
    if (picked?.it === 'mode') await this.selectMode();
    else if (picked) await this.select();
  }

  async setKey(provider?: string): Promise<void> {
    const name = provider ?? (await this.pickProvider());
    if (name === undefined) return;
    const key = await vscode.window.showInputBox({
      title: vscode.l10n.t('Key for {0}', name),
      prompt: vscode.l10n.t('Kept in VS Code’s secret store. Leave it empty to forget the key.'),
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

  /** Of the provider whose model is in use: it did not take the key it was asked with. */
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
      placeHolder: vscode.l10n.t('Whose key'),
    });
  }

  private item(model: Model, inUse: string): vscode.QuickPickItem {
    const facts = [
      !model.label.includes(`(${model.provider})`) && model.provider,
      model.contextWindow && count(model.contextWindow),
      model.price && `$${model.price.input}/$${model.price.output}`,
      model.images === false && model.id !== DEMO && vscode.l10n.t('no images'),
      model.id === inUse && vscode.l10n.t('in use'),
    ].filter(Boolean);
    const icon = model.id === inUse ? '$(check) ' : model.available ? '' : '$(key) ';
    return {
      label: `${icon}${model.label}`,
      description: facts.join(' · '),
      ...(!model.available && model.reason && { detail: model.reason }),
    };
  }

  private async use(model: Model): Promise<void> {
    if (!model.available) await this.setKey(model.provider);
    await this.choose(model.id);
  }

  private async useOther(inUse: string): Promise<void> {
    const id = await vscode.window.showInputBox({
      title: vscode.l10n.t('Model'),
      value: inUse === DEMO ? '' : inUse,
      prompt: vscode.l10n.t('Provider and model, for example openai-chat:gpt-x or ollama:qwen3'),
      ignoreFocusOut: true,
    });
    if (id) await this.choose(id.trim());
  }

  /** For the session in view, and for the next ones. */
  private async choose(model: string): Promise<void> {
    await vscode.workspace.getConfiguration('pilotfish').update('model', model, vscode.ConfigurationTarget.Global);
    if (this.chat.session) {
      const { session } = await this.connection.request('pilotfish/session/configure', {
        sessionId: this.chat.session.id,
        model,
      });
      this.chat.noted(session);
      // A turn that waits for the next try at another model need not: this one is asked now.
      if (session.busy) await this.connection.request('pilotfish/session/retry', { sessionId: session.id });
    }
    await this.refresh();
  }
}

/** The one in use first, then what can be used at once. */
function rank(model: Model, inUse: string): number {
  return model.id === inUse ? 0 : model.available && model.id !== DEMO ? 1 : model.id === DEMO ? 2 : 3;
}

function secretName(provider: string): string {
  return `pilotfish.key.${provider}`;
}
