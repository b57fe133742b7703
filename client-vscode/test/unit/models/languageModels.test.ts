import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { CancellationToken } from 'vscode';
import { LanguageModels } from '../../../src/models/languageModels.ts';
import type { ModelRequestParams, ModelRequestResult } from '../../../src/protocol.gen.ts';
import { Connection } from '../../../src/server/connection.ts';
import { FakeTransport } from '../support/transport.ts';
import {
  chatModels,
  LanguageModelChatMessage,
  LanguageModelDataPart,
  LanguageModelError,
  LanguageModelTextPart,
  LanguageModelToolCallPart,
  LanguageModelToolResultPart,
  LOG,
  logged,
} from '../support/vscode.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

type Answer = (token: CancellationToken) => AsyncIterable<unknown>;

/** A model that answers as the test says, and records what it was sent. */
class ScriptedModel {
  readonly vendor = 'copilot';
  readonly id = 'gpt/x';
  readonly name = 'GPT X';
  readonly maxInputTokens = 64_000;
  readonly sent: [unknown, unknown][] = [];
  constructor(private readonly answer: Answer) {}
  async sendRequest(messages: unknown, options: unknown, token: CancellationToken) {
    this.sent.push([messages, options]);
    return { stream: this.answer(token) };
  }
}

const NOT_CANCELLED = { isCancellationRequested: false } as CancellationToken;
const REQUEST: ModelRequestParams = {
  requestId: 'r1',
  model: 'copilot/gpt/x',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hello?' }] }],
  tools: [],
  options: {},
};

function rig(answer: Answer = async function* () {}) {
  const model = new ScriptedModel(answer);
  chatModels.all = [model];
  const transport = new FakeTransport();
  const connection = new Connection();
  const models = new LanguageModels(connection, LOG);
  connection.attach(transport);
  const ask = (params: Partial<ModelRequestParams> = {}, token = NOT_CANCELLED) =>
    transport.requests.get('pilotfish/model/request')?.({ ...REQUEST, ...params } as never, token) as Promise<
      ModelRequestResult | undefined
    >;
  return { model, models, transport, ask };
}

function chunks(transport: FakeTransport): unknown[] {
  return transport.sent.map(([method, params]) => {
    expect(method).toBe('pilotfish/model/chunk');
    const { requestId, part } = params as { requestId: string; part: unknown };
    expect(requestId).toBe('r1');
    return part;
  });
}

beforeEach(() => {
  logged.length = 0;
});

describe('the models of VS Code', () => {
  it('are offered when the server has started, and again when they change', async () => {
    const { models, transport } = rig();
    let offers = 0;
    models.onDidOffer(() => {
      offers += 1;
    });
    await models.offer();
    const offered = { models: [{ id: 'copilot/gpt/x', label: 'GPT X', contextWindow: 64_000 }] };
    expect(transport.sent).toEqual([['pilotfish/model/offered', offered]]);
    chatModels.all = [];
    chatModels.changed.fire();
    await expect.poll(() => transport.sent[1]).toEqual(['pilotfish/model/offered', { models: [] }]);
    expect(offers).toBe(2);
    models.dispose();
  });
});

describe('a request', () => {
  it('is sent in the words of VS Code', async () => {
    const { model, ask } = rig();
    const tool = { name: 'read_file', description: 'Reads.', inputSchema: { type: 'object' } };
    await ask({
      messages: [
        { role: 'system', parts: [{ type: 'text', text: 'You are an agent.' }] },
        {
          role: 'user',
          parts: [
            { type: 'text', text: 'Look.' },
            { type: 'image', data: 'aGk=', mimeType: 'image/png' },
          ],
        },
        { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1', name: 'read_file', input: { path: 'a' } }] },
        { role: 'user', parts: [{ type: 'tool_result', id: 'c1', text: 'here' }] },
      ],
      tools: [tool],
      options: { temperature: 0.5 },
    });
    const image = new LanguageModelDataPart(Buffer.from('hi'), 'image/png');
    expect(model.sent).toEqual([
      [
        [
          LanguageModelChatMessage.User([new LanguageModelTextPart('You are an agent.')]),
          LanguageModelChatMessage.User([new LanguageModelTextPart('Look.'), image]),
          LanguageModelChatMessage.Assistant([new LanguageModelToolCallPart('c1', 'read_file', { path: 'a' })]),
          LanguageModelChatMessage.User([new LanguageModelToolResultPart('c1', [new LanguageModelTextPart('here')])]),
        ],
        {
          justification: 'Pilotfish answers your prompts with it.',
          modelOptions: { temperature: 0.5 },
          tools: [tool],
        },
      ],
    ]);
  });

  it('streams text and tool calls back, and nothing else', async () => {
    const { transport, ask } = rig(async function* () {
      yield new LanguageModelTextPart('I look.');
      yield new LanguageModelTextPart('');
      yield { thinking: 'hm' };
      yield new LanguageModelToolCallPart('c1', 'read_file', { path: 'a' });
    });
    expect(await ask()).toEqual({});
    expect(chunks(transport)).toEqual([
      { type: 'text', text: 'I look.' },
      { type: 'tool_call', id: 'c1', name: 'read_file', input: { path: 'a' } },
    ]);
  });

  it('that is cancelled sends nothing more', async () => {
    const token = { isCancellationRequested: false };
    const { transport, ask } = rig(async function* () {
      yield new LanguageModelTextPart('One');
      token.isCancellationRequested = true;
      yield new LanguageModelTextPart('Two');
    });
    await ask({}, token as CancellationToken);
    expect(chunks(transport)).toEqual([{ type: 'text', text: 'One' }]);
    expect(logged).toEqual([]);
  });

  it('to a model that is gone is answered with that', async () => {
    const { ask } = rig();
    expect(await ask({ model: 'copilot/other' })).toEqual({
      error: { kind: 'not_found', message: 'No extension provides it.' },
    });
  });

  it.each([
    [new LanguageModelError('The user said no', 'NoPermissions'), 'permission', 'The user said no'],
    [new LanguageModelError('Blocked here', 'Blocked'), 'blocked', 'Blocked here'],
    [Object.assign(new Error('No more premium'), { name: 'ChatQuotaExceeded' }), 'quota', 'No more premium'],
    [Object.assign(new Error('Slow down'), { name: 'ChatRateLimited' }), 'rate_limit', 'Slow down'],
    [
      new LanguageModelError('Failed', 'Unknown', { cause: new Error('429 rate limit reached') }),
      'rate_limit',
      'Failed: 429 rate limit reached',
    ],
    [new Error('net::ERR_FAILED'), 'other', 'net::ERR_FAILED'],
  ])('that fails keeps the words: %s', async (error, kind, message) => {
    const { transport, ask } = rig(async function* () {
      yield new LanguageModelTextPart('half');
      throw error;
    });
    expect(await ask()).toEqual({ error: { kind, message } });
    expect(chunks(transport)).toEqual([{ type: 'text', text: 'half' }]);
  });
});
