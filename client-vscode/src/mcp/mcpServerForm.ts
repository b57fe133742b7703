/** The form for a new MCP server: a program or an address, and the variables or headers that it needs. */

import * as vscode from 'vscode';
import type { McpServerEntry } from '../protocol.gen.ts';
import { askText, pick } from '../widgets.ts';

/** A server as the user entered it. Its entry names the secrets, and does not contain them. */
export interface NewServer {
  server: McpServerEntry;
  /** id → value */
  secrets: Record<string, string>;
}

const EMPTY: McpServerEntry = { name: '', args: [], env: {}, transport: 'http', headers: {}, trusted: false };

/** Asks for a server whose name is not taken. */
export async function askServer(taken: readonly string[]): Promise<NewServer | undefined> {
  const title = vscode.l10n.t('Add an MCP server');
  const kind = await pick(
    [
      {
        kind: 'program' as const,
        icon: 'terminal',
        label: vscode.l10n.t('Program'),
        detail: vscode.l10n.t('A command that speaks MCP over stdin and stdout, such as npx or uvx with a package'),
      },
      {
        kind: 'address' as const,
        icon: 'globe',
        label: vscode.l10n.t('Address'),
        detail: vscode.l10n.t('A server over HTTP'),
      },
    ],
    { title },
  );
  if (!kind) return undefined;
  const place = kind.kind === 'program' ? await askCommand(title) : await askAddress(title);
  if (!place) return undefined;
  const name = await askText({
    title,
    prompt: vscode.l10n.t('A name, which begins the names of its tools'),
    validate: (text) =>
      text.trim() === ''
        ? vscode.l10n.t('It needs a name.')
        : taken.includes(text.trim())
          ? vscode.l10n.t('There is a server of this name.')
          : undefined,
  });
  if (name === undefined) return undefined;
  const fields = await askFields(title, name.trim(), kind.kind);
  if (!fields) return undefined;
  const { values, secrets } = fields;
  const given = kind.kind === 'program' ? { env: values } : { headers: values };
  return { server: { ...EMPTY, name: name.trim(), ...place, ...given }, secrets };
}

async function askCommand(title: string): Promise<Pick<McpServerEntry, 'command' | 'args'> | undefined> {
  const line = await askText({
    title,
    prompt: vscode.l10n.t('The command line. Quote words with blanks.'),
    placeHolder: 'npx -y @modelcontextprotocol/server-memory',
    validate: (text) =>
      splitCommand(text) === undefined
        ? vscode.l10n.t('A quotation mark is not closed.')
        : text.trim() === ''
          ? vscode.l10n.t('It needs a command.')
          : undefined,
  });
  const [command, ...args] = (line !== undefined && splitCommand(line)) || [];
  return command === undefined ? undefined : { command, args };
}

async function askAddress(title: string): Promise<Pick<McpServerEntry, 'url' | 'transport'> | undefined> {
  const url = await askText({
    title,
    prompt: vscode.l10n.t('The address of the server'),
    placeHolder: 'https://hub.example/mcp',
    validate: (text) => (/^https?:\/\/[^/?#\s]+\S*$/.test(text) ? undefined : vscode.l10n.t('An http address.')),
  });
  if (url === undefined) return undefined;
  return { url, transport: /\/sse\/?$/.test(url) ? 'sse' : 'http' };
}

/** Asks for variables or headers until the user has no more. A secret value is replaced by its name. */
async function askFields(
  title: string,
  server: string,
  kind: 'program' | 'address',
): Promise<{ values: Record<string, string>; secrets: Record<string, string> } | undefined> {
  const values: Record<string, string> = {};
  const secrets: Record<string, string> = {};
  for (;;) {
    const entered = await askText({
      title,
      prompt:
        kind === 'program'
          ? vscode.l10n.t('An environment variable that it needs. Leave this empty if there is none, or no other.')
          : vscode.l10n.t('A header that it needs. Leave this empty if there is none, or no other.'),
      placeHolder: kind === 'program' ? 'API_TOKEN' : 'Authorization',
    });
    const field = entered?.trim();
    if (field === undefined) return undefined;
    if (field === '') return { values, secrets };
    const value = await askText({ title, prompt: vscode.l10n.t('The value of {0}', field), password: true });
    if (value === undefined) return undefined;
    const secret = await pick(
      [
        {
          label: vscode.l10n.t('It is a secret'),
          detail: vscode.l10n.t('It is kept in VS Code’s secret storage, and written to no file.'),
          icon: 'lock',
          secret: true,
        },
        {
          label: vscode.l10n.t('It is no secret'),
          detail: vscode.l10n.t('It is written to the configuration file, for other clients too.'),
          icon: 'file',
          secret: false,
        },
      ],
      { title: field },
    );
    if (!secret) return undefined;
    if (secret.secret) {
      const id = `${server}-${field}`.replace(/[^A-Za-z0-9_-]/g, '-').toLowerCase();
      secrets[id] = value;
      values[field] = `\${input:${id}}`;
    } else {
      values[field] = value;
    }
  }
}

/** The words of a command line, with single and double quotation marks. Undefined if one is not closed. */
export function splitCommand(line: string): readonly string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (const char of line) {
    if (quote !== '' && char !== quote) word = (word ?? '') + char;
    else if (quote !== '') quote = '';
    else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + char;
  }
  if (quote !== '') return undefined;
  return word === undefined ? words : [...words, word];
}
