import { beforeEach, describe, expect, it } from 'vitest';
import type { Chat } from '../../../src/chat/chat.ts';
import { LongTask } from '../../../src/chat/longTask.ts';
import { Keys } from '../../../src/models/keys.ts';
import { Models } from '../../../src/models/models.ts';
import type { ModelState } from '../../../webview/messages.ts';
import { answering, memory } from '../support/server.ts';
import { input, LOG, picked, pressed, settings } from '../support/vscode.ts';

const MODELS = [
  { id: 'demo', label: 'Demo', provider: 'demo', available: true, local: true },
  { id: 'anthropic:claude-x', label: 'claude-x', provider: 'anthropic', available: false, reason: 'No key.' },
  { id: 'ollama:qwen3', label: 'qwen3', provider: 'Ollama', available: true, images: false, tools: false, local: true },
  { id: 'work:m', label: 'm', provider: 'work', available: true, local: false },
  {
    id: 'openai:gpt-x',
    label: 'gpt-x',
    provider: 'OpenAI',
    available: true,
    contextWindow: 200_000,
    price: { input: 2.5, output: 15 },
  },
];

const OF_EDITOR = {
  id: 'vscode:copilot/gpt-x',
  label: 'GPT X',
  provider: 'VS Code’s language models',
  available: true,
};

const ANSWERS: Record<string, unknown> = {
  'pilotfish/model/list': { models: MODELS, current: 'demo' },
  'pilotfish/endpoint/list': { endpoints: [] },
  'pilotfish/endpoint/test': { ok: true },
};

function rig(session: { id: string; model: string; busy: boolean } | null = null, listed: object[] = MODELS) {
  const sent: [string, unknown][] = [];
  const answers = { ...ANSWERS, 'pilotfish/model/list': { models: listed, current: 'demo' } } as typeof ANSWERS;
  const { connection, attach } = answering((method, params) => {
    if (method !== 'pilotfish/model/list') sent.push([method, params]);
    return answers[method] ?? { session };
  });
  attach();
  const { context, secrets, state } = memory();
  const shown: ModelState[] = [];
  const chat = {
    session,
    setModel: (model: ModelState) => shown.push(model),
    updateSession: () => {},
  } as unknown as Chat;
  const server = { installLocalModels: async () => {}, onProgress: () => ({ dispose: () => {} }) };
  const task = new LongTask(async () => {}, LOG);
  return {
    models: new Models(new Keys(context, connection), connection, chat, server, task),
    sent,
    secrets,
    state,
    shown,
    answers,
  };
}

beforeEach(() => {
  pressed.next = undefined;
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
      'Connect a model…',
      'Demo',
      'qwen3',
      'm',
      'gpt-x',
      'API key required',
      'claude-x',
      '',
      'Thinking effort…',
      'Other model…',
      'Configure models…',
    ]);
  });

  it('ends with the way to connect another model, once one is connected', async () => {
    const { models } = rig({ id: 's1', model: 'openai:gpt-x', busy: false });
    await models.select();
    expect(picked.offered.map(({ label }) => label).slice(-4)).toEqual([
      'Connect a model…',
      'Thinking effort…',
      'Other model…',
      'Configure models…',
    ]);
  });

  it('shows the context window and the price', async () => {
    const { models } = rig();
    await models.select();
    expect(picked.offered.map(({ description }) => description)).toContain('OpenAI · 200k · $2.5/$15');
  });

  it('shows what a model cannot do, and that its price is unknown', async () => {
    const { models } = rig();
    await models.select();
    const descriptions = picked.offered.map(({ description }) => description);
    expect(descriptions).toContain('Ollama · no tool calls · no images');
    expect(descriptions).toContain('work · price unknown');
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

describe('connecting', () => {
  it('asks for the provider, the key, and then for one of its models', async () => {
    const { models, secrets } = rig();
    const titles: string[][] = [];
    picked.next = (items) => {
      titles.push(items.map(({ label }) => label));
      return titles.length === 1
        ? items.find(({ label }) => label.startsWith('Connect'))
        : items.find(({ label }) => /anthropic|claude/.test(label));
    };
    input.next = ' sk-secret ';
    await models.select();
    expect(titles.slice(1)).toEqual([
      ['anthropic', 'Ollama', 'work', 'OpenAI', 'OpenRouter', 'On this machine, nothing leaves it', 'Custom endpoint…'],
      ['claude-x'],
    ]);
    expect(secrets.get('pilotfish.key.anthropic')).toBe('sk-secret');
    expect(settings.model).toBe('anthropic:claude-x');
  });

  it('a wrong key is found when it is entered, and asked for again', async () => {
    const { models, sent, answers } = rig();
    const refusal = {
      ok: false,
      error: { message: 'The provider did not accept the API key: “revoked”.', remedy: '' },
    };
    answers['pilotfish/endpoint/test'] = refusal;
    picked.next = (items) => items.find(({ label }) => label.includes('claude-x'));
    input.next = 'sk-wrong';
    const asked: string[] = [];
    pressed.next = (message) => {
      asked.push(message);
      answers['pilotfish/endpoint/test'] = { ok: true };
      return 'Change it…';
    };
    await models.select();
    expect(asked).toEqual([refusal.error.message]);
    expect(sent.filter(([method]) => method === 'pilotfish/secret/set')).toHaveLength(2);
    expect(settings.model).toBe('anthropic:claude-x');
  });

  it('asks for the name of a model where the provider has no list', async () => {
    const { models, sent } = rig();
    picked.next = (items) => items.find(({ label }) => /^Connect|OpenRouter/.test(label));
    input.next = (prompt) => (prompt.startsWith('The name') ? 'qwen/qwen3' : 'sk-or');
    await models.select();
    expect(sent).toContainEqual(['pilotfish/endpoint/test', { model: 'openrouter:qwen/qwen3' }]);
    expect(settings.model).toBe('openrouter:qwen/qwen3');
  });

  it('VS Code’s own models need no key, and no key can be set for them', async () => {
    const { models, sent } = rig(null, [...MODELS, OF_EDITOR]);
    picked.next = (items) => items.find(({ label }) => /VS Code|GPT X/.test(label));
    await models.connect();
    expect(settings.model).toBe('vscode:copilot/gpt-x');
    expect(sent.map(([method]) => method)).not.toContain('pilotfish/secret/set');
    picked.next = undefined;
    await models.setKey();
    expect(picked.offered.map(({ label }) => label)).toEqual(['anthropic', 'Ollama', 'work', 'OpenAI', 'OpenRouter']);
  });

  it('without a key the model in use stays', async () => {
    const { models } = rig();
    picked.next = (items) => items.find(({ label }) => label.includes('claude-x'));
    await models.select();
    expect(settings.model).toBeUndefined();
  });

  it('the thinking effort is chosen in the picker', async () => {
    const { models } = rig();
    picked.next = (items) => items.find(({ label }) => label.startsWith('Thinking') || label === 'High');
    await models.select();
    expect(settings.thinking).toBe('high');
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
