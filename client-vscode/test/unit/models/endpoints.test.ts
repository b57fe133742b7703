import { beforeEach, describe, expect, it } from 'vitest';
import { Endpoints } from '../../../src/models/endpoints.ts';
import { Keys } from '../../../src/models/keys.ts';
import { answering, memory } from '../support/server.ts';
import { input, picked, pressed } from '../support/vscode.ts';

const STORED = {
  name: 'old',
  url: 'http://old/v1',
  api: 'chat',
  keyVariable: 'OLD',
  hasKey: true,
  stored: true,
} as const;

function rig() {
  const sent: [string, unknown][] = [];
  const tests: unknown[] = [];
  const { connection, attach } = answering((method, params) => {
    if (method === 'pilotfish/endpoint/list') return { endpoints: [STORED] };
    sent.push([method.replace('pilotfish/', ''), params]);
    return method === 'pilotfish/endpoint/test' ? (tests.shift() ?? { ok: true, models: [] }) : {};
  });
  attach();
  const { context, secrets } = memory();
  const used: string[] = [];
  const endpoints = new Endpoints(connection, new Keys(context, connection), async (id) => void used.push(id));
  return { endpoints, sent, tests, secrets, used };
}

/** Answers the input boxes by the beginning of their prompt. */
function type(answers: Record<string, string | undefined>): void {
  input.next = (prompt) => answers[Object.keys(answers).find((start) => prompt.startsWith(start)) ?? ''];
}

beforeEach(() => {
  pressed.next = undefined;
  picked.next = (items) => items[0];
});

describe('a custom endpoint', () => {
  const work = { name: 'work', url: 'https://work/v1', api: 'chat' };

  it('is tried, stored with its key in the secret storage, and used', async () => {
    const { endpoints, sent, tests, secrets, used } = rig();
    const listed = { ok: true, models: [{ id: 'work:m1' }, { id: 'work:m2' }] };
    tests.push(listed, listed);
    type({ 'A name': 'work', 'The address': 'https://work/v1', 'Its API key': ' sk-work ' });
    await endpoints.add();
    expect(sent).toEqual([
      ['endpoint/test', { endpoint: work, key: 'sk-work' }],
      ['endpoint/add', { endpoint: work }],
      ['secret/set', { provider: 'work', key: 'sk-work' }],
      ['endpoint/test', { endpoint: work }],
      ['endpoint/test', { endpoint: work, model: 'm1' }],
    ]);
    expect([...secrets]).toEqual([['pilotfish.key.work', 'sk-work']]);
    expect(used).toEqual(['work:m1']);
  });

  it('that does not work is said in the provider’s words and stored only if the user wants that', async () => {
    const { endpoints, sent, tests, used } = rig();
    tests.push({ ok: false, error: { message: 'revoked', remedy: 'Check the key.' } });
    type({ 'A name': 'work', 'The address': 'https://work/v1', 'Its API key': '' });
    const said: string[] = [];
    pressed.next = (message) => {
      said.push(message);
      return undefined;
    };
    await endpoints.add();
    expect([said, sent, used]).toEqual([['revoked'], [['endpoint/test', { endpoint: work }]], []]);
  });

  it('that lists its models for any key asks for a wrong key again, and tries the same model', async () => {
    const { endpoints, sent, tests, secrets, used } = rig();
    const listed = { ok: true, models: [{ id: 'work:m1' }] };
    const wrong = { ok: false, error: { message: 'wrong key', remedy: 'Check it.', kind: 'authentication' } };
    tests.push(listed, listed, wrong);
    type({
      'A name': 'work',
      'The address': 'https://work/v1',
      'Its API key': 'sk-old',
      'API key for work': ' sk-new ',
    });
    pressed.next = () => 'Change it…';
    await endpoints.add();
    expect(sent.slice(4)).toEqual([
      ['endpoint/test', { endpoint: work, model: 'm1' }],
      ['secret/set', { provider: 'work', key: 'sk-new' }],
      ['endpoint/test', { endpoint: work, model: 'm1' }],
    ]);
    expect([...secrets]).toEqual([['pilotfish.key.work', 'sk-new']]);
    expect(used).toEqual(['work:m1']);
  });

  it('without a list of models is used with the model that the user names', async () => {
    const { endpoints, used } = rig();
    type({ 'A name': 'work', 'The address': 'https://work/v1', 'Its API key': '', 'It lists no models': 'mine' });
    await endpoints.add();
    expect(used).toEqual(['work:mine']);
  });

  it('keeps its key and its variable when it is edited', async () => {
    const { endpoints, sent, secrets } = rig();
    picked.next = (items) => items.find(({ label }) => label === 'Edit…' || label.startsWith('Anthropic'));
    type({ 'The address': 'http://new', 'Its API key': '' });
    await endpoints.manage(STORED);
    const edited = { name: 'old', url: 'http://new', api: 'anthropic', keyVariable: 'OLD' };
    expect(sent.slice(0, 2)).toEqual([
      ['endpoint/test', { endpoint: edited }],
      ['endpoint/add', { endpoint: edited }],
    ]);
    expect(secrets.size).toBe(0);
  });

  it('is removed with its key after a question', async () => {
    const { endpoints, sent } = rig();
    picked.next = (items) => items.find(({ label }) => label === 'Remove');
    await endpoints.manage(STORED);
    expect(sent).toEqual([]);
    pressed.next = () => 'Remove';
    await endpoints.manage(STORED);
    expect(sent).toEqual([
      ['endpoint/remove', { name: 'old' }],
      ['secret/set', { provider: 'old', key: '' }],
    ]);
  });
});
