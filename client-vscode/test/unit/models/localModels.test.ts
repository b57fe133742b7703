import { beforeEach, describe, expect, it } from 'vitest';
import { LongTask } from '../../../src/chat/longTask.ts';
import { LocalModels } from '../../../src/models/localModels.ts';
import type { Model } from '../../../src/protocol.gen.ts';
import { InstallFailed } from '../../../src/server/installServer.ts';
import type { TaskState } from '../../../webview/messages.ts';
import { answering } from '../support/server.ts';
import { LOG, opened, picked, pressed } from '../support/vscode.ts';

const QWEN: Model = {
  id: 'local:qwen',
  label: 'qwen (on this machine, 1.1 GB)',
  provider: 'On this machine',
  available: false,
  local: true,
  warning: 'It is small and slow.',
};

function rig(install: () => Promise<void> = async () => {}) {
  const steps: string[] = [];
  let model: Model = { ...QWEN, missingPackage: true };
  const { connection, attach } = answering((method, params) => {
    if (method === 'pilotfish/model/list') return { models: [model], current: 'demo' };
    steps.push(`${method.replace('pilotfish/', '')} ${(params as { id: string }).id}`);
    return {};
  });
  attach();
  const states: (TaskState | null)[] = [];
  const task = new LongTask(async () => void steps.push('reveal'), LOG);
  task.onDidChange((state) => states.push(state));
  const server = {
    installLocalModels: async () => {
      steps.push('install');
      await install();
      model = { ...QWEN, downloadBytes: 1_100_000_000 };
    },
    onProgress: (_: string, report: (message: string, percent: number) => void) => {
      report('40 % of 1.1 GB', 40);
      return { dispose: () => {} };
    },
  };
  const local = new LocalModels(connection, server, task, async (id) => void steps.push(`use ${id}`));
  return { local, steps, states, task };
}

beforeEach(() => {
  picked.next = (items) => items[0];
  pressed.next = (_, buttons) => buttons.find((button) => button === 'Download and use');
});

describe('a model on this machine', () => {
  it('is installed, downloaded with progress in the chat, and used after one question', async () => {
    const { local, steps, states } = rig();
    await local.connect();
    expect(steps).toEqual(['reveal', 'install', 'reveal', 'model/download local:qwen', 'use local:qwen']);
    const shown = states.flatMap((state) => (state?.status === 'running' ? [[state.percent, state.step]] : []));
    expect(shown).toContainEqual([40, 'Downloading the weights… 40 % of 1.1 GB']);
    expect(states.at(-1)).toBeNull();
  });

  it('changes nothing without a yes', async () => {
    const { local, steps } = rig();
    pressed.next = () => undefined;
    await local.connect();
    expect(steps).toEqual([]);
  });

  it('that cannot be installed is said in the chat with what mends it, until it is dismissed', async () => {
    const { local, steps, task } = rig(async () => {
      throw new InstallFailed('The server is not the one of the extension.', 'pip install x');
    });
    await local.connect();
    expect(steps).toEqual(['reveal', 'install']);
    expect(task.state).toEqual({
      status: 'failed',
      reason: 'The server is not the one of the extension.',
      command: 'pip install x',
    });
    task.dismiss();
    expect(task.state).toBeNull();
  });

  it('may be a file that the user has', async () => {
    const { local, steps } = rig();
    picked.next = (items) => items.find(({ label }) => label.startsWith('A file'));
    opened.next = [{ fsPath: '/models/mine.gguf' }];
    await local.connect();
    expect(steps).toEqual(['reveal', 'install', 'use local:/models/mine.gguf']);
  });
});
