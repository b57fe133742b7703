/** Models that run on this machine, in the server's own process: installs what runs them, and gets their weights. */

import * as vscode from 'vscode';
import type { LongTask } from '../chat/longTask.ts';
import type { Model } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import type { Server } from '../server/server.ts';
import { chooseFile, type PickItem, pick, showDialog } from '../widgets.ts';

const PREFIX = 'local:';

export function isLocalModel(model: Model): boolean {
  return model.id.startsWith(PREFIX);
}

export class LocalModels {
  constructor(
    private readonly connection: Connection,
    private readonly server: Pick<Server, 'installLocalModels' | 'onProgress'>,
    private readonly task: LongTask,
    /** uses a model in the session in view and in new ones */
    private readonly useModel: (id: string) => Promise<void>,
  ) {}

  /** Asks for one of the models, or for a file of weights. */
  async connect(): Promise<void> {
    const models = await this.models();
    const file: PickItem & { model?: Model } = {
      icon: 'folder-opened',
      label: vscode.l10n.t('A file of weights (.gguf)…'),
      detail: vscode.l10n.t('A model for llama.cpp that you have downloaded yourself.'),
    };
    const items = models.map((model) => ({
      label: model.label,
      icon: model.available ? 'check' : 'cloud-download',
      ...(model.warning !== undefined && { detail: model.warning }),
      model,
    }));
    const picked = await pick([...items, file], {
      title: vscode.l10n.t('On this machine, nothing leaves it'),
      placeHolder: vscode.l10n.t('Select a model'),
    });
    if (picked?.model) await this.use(picked.model);
    else if (picked) await this.useFile(models);
  }

  /** Installs and downloads what the model needs, after a question, and uses it. */
  async use(model: Model): Promise<void> {
    if (model.available || ((await this.confirm(model)) && (await this.prepare(model.id))))
      await this.useModel(model.id);
  }

  private async useFile(models: readonly Model[]): Promise<void> {
    const file = await chooseFile(vscode.l10n.t('Use this model'), { [vscode.l10n.t('Weights')]: ['gguf'] });
    if (!file) return;
    if (models.some((model) => model.missingPackage) && !(await this.install())) return;
    await this.useModel(`${PREFIX}${file.fsPath}`);
  }

  private async confirm(model: Model): Promise<boolean> {
    const go = vscode.l10n.t('Download and use');
    const question = vscode.l10n.t('Run {0}?', model.label);
    const what = vscode.l10n.t('Its weights and, if it is missing, llama.cpp (34 MB) are downloaded once.');
    return (await showDialog('info', question, `${what}\n${model.warning ?? ''}`, go)) === go;
  }

  private async prepare(id: string): Promise<boolean> {
    const found = async () => (await this.models()).find((model) => model.id === id);
    if ((await found())?.missingPackage && !(await this.install())) return false;
    return (await found())?.downloadBytes === undefined || this.download(id);
  }

  private install(): Promise<boolean> {
    return this.task.run(async (report, token) => {
      await this.server.installLocalModels(report, token);
      const missing = (await this.models()).find((model) => model.missingPackage);
      if (missing) throw new Error(missing.reason ?? vscode.l10n.t('The package is still missing.'));
    });
  }

  /** The server continues a download that was stopped, and checks the checksum. */
  private download(id: string): Promise<boolean> {
    return this.task.run(async (report, token) => {
      const workDoneToken = `download ${Date.now()}`;
      const step = (message: string) => vscode.l10n.t('Downloading the weights… {0}', message);
      report(0, step(''));
      const listening = this.server.onProgress(workDoneToken, (message, percent) => report(percent, step(message)));
      try {
        await this.connection.request('pilotfish/model/download', { id, workDoneToken }, token);
      } finally {
        listening.dispose();
      }
    });
  }

  private async models(): Promise<readonly Model[]> {
    return (await this.connection.request('pilotfish/model/list', {})).models.filter(isLocalModel);
  }
}
