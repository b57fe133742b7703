import { beforeEach, describe, expect, it } from 'vitest';
import type { ExtensionContext } from 'vscode';
import type { Chat } from '../../../src/chat/chat.ts';
import { Models } from '../../../src/models/models.ts';
import { Connection, type Transport } from '../../../src/server/connection.ts';
import type { ModelState } from '../../../webview/messages.ts';
import { input, picked, settings } from '../support/vscode.ts';

const MODELS = [
  { id: 'demo', label: 'Demo', provider: 'demo', available: true },
  { id: 'anthropic:claude-x', label: 'claude-x', provider: 'anthropic', available: false, reason: 'No key.' },
  { id: 'ollama:qwen3', label: 'qwen3', provider: 'Ollama', available: true, images: false },
  {
    id: 'openai:gpt-x',
    label: 'gpt-x',
    provider: 'OpenAI',
    available: true,
    contextWindow: 200_000,
    price: { input: 2.5, output: 15 },
  },
];

function rig(session: { id: string; model: string; busy: boolean } | null = null) {
  const sent: [string, unknown][] = [];
  const transport: Transport = {
    sendRequest: async (method, params) => {
      if (method !== 'pilotfish/model/list') sent.push([method, params]);
      return method === 'pilotfish/model/list' ? { models: MODELS, current: 'demo' } : { session };
    },
    sendNotification: async () => {},
    onRequest: () => ({ dispose: () => {} }),
    onNotification: () => ({ dispose: () => {} }),
  };
  const connection = new Connection();
  connection.attach(transport);
  const secrets = new Map<string, string>();
  const state = new Map<string, unknown>();
  const context = {
    secrets: {
      get: async (name: string) => secrets.get(name),
      store: async (name: string, key: string) => void secrets.set(name, key),
      delete: async (name: string) => void secrets.delete(name),
    },
    globalState: {
      get: (name: string, otherwise: unknown) => state.get(name) ?? otherwise,
      update: async (name: string, value: unknown) => void state.set(name, value),
    },
  } as unknown as ExtensionContext;
  const shown: ModelState[] = [];
  const chat = {
    session,
    setModel: (model: ModelState) => shown.push(model),
    updateSession: () => {},
  } as unknown as Chat;
  return { models: new Models(context, connection, chat), sent, secrets, state, shown };
}

beforeEach(() => {
  input.next = undefined;
  picked.next = undefined;
  picked.offered = [];
  for (const name of Object.keys(settings)) delete settings[name];
});

describe('an API key', () => {
  it('is stored only in the secret storage and sent to the server', async () => {
    const { models, sent, secrets, state } = rig();
    input.next = 'sk-secret';
    await models.setKey('anthropic');
    expect([...secrets]).toEqual([['pilotfish.key.anthropic', 'sk-secret']]);
    expect(sent).toEqual([['pilotfish/secret/set', { provider: 'anthropic', key: 'sk-secret' }]]);
    expect(JSON.stringify([...state, settings])).not.toContain('sk-secret');
  });

  it('is sent to every new server', async () => {
    const { models, sent } = rig();
    input.next = 'sk-secret';
    await models.setKey('anthropic');
    sent.length = 0;
    await models.handleServerStarted();
    expect(sent).toEqual([['pilotfish/secret/set', { provider: 'anthropic', key: 'sk-secret' }]]);
  });

  it('is deleted when the user leaves it empty', async () => {
    const { models, sent, secrets } = rig();
    input.next = 'sk-secret';
    await models.setKey('anthropic');
    input.next = '';
    await models.setKey('anthropic');
    sent.length = 0;
    await models.handleServerStarted();
    expect([...secrets]).toEqual([]);
    expect(sent).toEqual([]);
  });

  it('that was rejected is requested for the provider of the model in use', async () => {
    const { models, secrets } = rig({ id: 's1', model: 'openai:gpt-x', busy: false });
    input.next = 'sk-new';
    await models.updateKey();
    expect([...secrets]).toEqual([['pilotfish.key.OpenAI', 'sk-new']]);
  });

  it('that was rejected by an unlisted provider is requested by the name in the model id', async () => {
    const { models, secrets } = rig({ id: 's1', model: 'groq:llama', busy: false });
    input.next = 'sk-new';
    await models.updateKey();
    expect([...secrets]).toEqual([['pilotfish.key.groq', 'sk-new']]);
  });

  it('changes nothing when the input is cancelled', async () => {
    const { models, sent, secrets } = rig();
    await models.setKey('anthropic');
    expect([[...secrets], sent]).toEqual([[], []]);
  });
});

describe('the list of models', () => {
  it('starts with the model in use, then usable models, then models that need a key', async () => {
    const { models } = rig();
    await models.select();
    expect(picked.offered.map(({ label }) => label)).toEqual([
      '$(check) Demo',
      'qwen3',
      'gpt-x',
      'API key required',
      '$(key) claude-x',
      '',
      '$(edit) Other model…',
      '$(gear) Configure models…',
    ]);
  });

  it('shows the context window and the price', async () => {
    const { models } = rig();
    await models.select();
    expect(picked.offered.map(({ description }) => description)).toContain('OpenAI · 200k · $2.5/$15');
  });

  it('shows which model does not accept images', async () => {
    const { models } = rig();
    await models.select();
    expect(picked.offered.map(({ description }) => description)).toContain('Ollama · no images');
  });

  it('asks for a missing key and then uses the model', async () => {
    const { models, secrets } = rig();
    picked.next = (items) => items.find(({ label }) => label.includes('claude-x'));
    input.next = 'sk-secret';
    await models.select();
    expect(secrets.get('pilotfish.key.anthropic')).toBe('sk-secret');
    expect(settings.model).toBe('anthropic:claude-x');
  });
});

describe('the model in use', () => {
  it.each([
    ['ollama:qwen3', { seesImages: false }],
    ['openai:gpt-x', {}],
  ])('%s is shown with its known image support', async (model, known) => {
    const { models, shown } = rig({ id: 's1', model, busy: false });
    await models.refresh();
    const label = model.split(':')[1];
    expect(shown).toEqual([{ current: model, label, available: true, demo: false, ...known }]);
  });

  it.each([
    [true, [['pilotfish/session/retry', { sessionId: 's1' }]]],
    [false, []],
  ])('is used at once by a waiting turn: %s', async (busy, asked) => {
    const { models, sent } = rig({ id: 's1', model: 'demo', busy });
    picked.next = (items) => items.find(({ label }) => label === 'gpt-x');
    await models.select();
    expect(sent).toEqual([['pilotfish/session/configure', { sessionId: 's1', model: 'openai:gpt-x' }], ...asked]);
  });
});
