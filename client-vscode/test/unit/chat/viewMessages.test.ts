import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseViewMessage } from '../../../src/chat/viewMessages.ts';
import { EMPTY_DRAFT, type FromView } from '../../../webview/messages.ts';

const DRAFT = {
  text: 'Fix it',
  caret: 6,
  chips: [{ id: 'f', label: 'a.ts', icon: 'file', block: { type: 'resource', uri: 'file:///a.ts' } }],
  scroll: { row: 'r', top: -12.5 },
} as const;

const MESSAGES: readonly FromView[] = [
  { type: 'ready' },
  { type: 'send', promptId: 'p', prompt: [{ type: 'text', text: 'Hi' }], draft: DRAFT, whenBusy: 'queue' },
  { type: 'resend', turnId: 't', promptId: 'p', prompt: [], laterTurns: ['u'], files: 'undo' },
  { type: 'answer', approvalId: 'a', optionId: 'allow_once' },
  { type: 'answer', approvalId: 'a', optionId: 'reject', feedback: 'no', args: { command: 'ls' } },
  { type: 'allowByRule', approvalId: 'a', rule: { tool: 'bash', pattern: 'ls', scope: 'user' } },
  { type: 'answerAsk', id: 'k', answer: null },
  { type: 'cards', current: null, listed: ['a'] },
  { type: 'allowTurnEdits', approvalId: 'a' },
  { type: 'resumeQueue' },
  { type: 'draft', sessionId: null, draft: EMPTY_DRAFT },
  { type: 'openFile', uri: 'file:///a.ts' },
  { type: 'openFile', uri: 'file:///a.ts', line: 3 },
  { type: 'review', title: 't', files: [{ uri: 'file:///a.ts', change: 'edited', diffs: ['@@'] }] },
  { type: 'undo', turnId: 't', direction: 'redo', rest: true },
  { type: 'command', command: 'selectModel' },
];

describe('a message from the view', () => {
  it.each(MESSAGES.map((message) => [message.type, message] as const))('is accepted: %s', (_, message) => {
    expect(parseViewMessage(message)).toBe(message);
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['not an object', 'ready'],
    ['a list', [{ type: 'ready' }]],
    ['no type', { command: 'settings' }],
    ['an unknown type', { type: 'eval' }],
    ['a type that is an inherited property', { type: 'constructor' }],
    ['an unknown command', { type: 'command', command: 'workbench.action.terminal.new' }],
    ['a command that is an inherited property', { type: 'command', command: 'toString' }],
    ['an unknown option', { type: 'answer', approvalId: 'a', optionId: 'allow_everything' }],
    ['an extra field', { type: 'answer', approvalId: 'a', optionId: 'reject', by: 'x' }],
    ['a missing field', { type: 'openSession' }],
    ['a number instead of a string', { type: 'copy', text: 5 }],
    ['an unknown scope', { type: 'allowByRule', approvalId: 'a', rule: { tool: 'b', pattern: '*', scope: 'world' } }],
    ['an unknown block type', { type: 'editQueued', promptId: 'p', prompt: [{ type: 'file' }] }],
    ['a draft without a text', { type: 'draft', sessionId: null, draft: { chips: [], caret: 0 } }],
    ['a fractional line', { type: 'openFile', uri: 'file:///a', line: 1.5 }],
  ])('is rejected: %s', (_, value) => {
    expect(parseViewMessage(value)).toBeUndefined();
  });

  it('has a declared type for everything that the view sends', () => {
    const view = path.resolve(import.meta.dirname, '../../../webview');
    const sources = readdirSync(view, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/.test(name) && name !== 'messages.ts')
      .map((name) => readFileSync(path.join(view, name), 'utf8'));
    const sent = new Set(
      sources.flatMap((source) => [...source.matchAll(/\bpost\(\{\s*type: '(\w+)'/g)].map(([, type]) => type)),
    );
    const declared = readFileSync(path.join(view, 'messages.ts'), 'utf8').split('export type FromView =')[1] ?? '';
    const kinds = new Set([...declared.matchAll(/\{\s*type: '(\w+)'/g)].map(([, type]) => type));
    expect([...sent].sort()).toEqual([...kinds].sort());
  });
});
