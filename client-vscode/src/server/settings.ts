/** What the user has set in the editor, in the wire's shape. What is left at its default is not sent: the user's
 * `config.toml` and environment hold there. */

import * as vscode from 'vscode';
import type { Settings } from '../protocol.gen.ts';

/** Settings whose names and values are the same on the wire. */
const SAME_NAMES = [
  'model',
  'fallbackModel',
  'baseUrl',
  'mode',
  'thinking',
  'temperature',
  'rules',
  'maxIterations',
  'toolTimeout',
  'stallTimeout',
  'contextWindow',
  'toolRetries',
  'toolHistoryRounds',
  'maxToolOutput',
  'maxParallelTools',
  'storage',
  'mcpConfig',
  'sandbox',
  'network',
] as const satisfies readonly (keyof Settings)[];

/** Every setting the server may hear of; null: not set here. */
export function wireSettings(): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration('pilotfish');
  const settings: Record<string, unknown> = {};
  for (const name of SAME_NAMES) settings[name] = chosen(configuration, name) ?? null;
  const tokens = chosen(configuration, 'budget.tokens');
  const cost = chosen(configuration, 'budget.cost');
  settings.budget = tokens === undefined && cost === undefined ? null : { tokens: tokens ?? null, cost: cost ?? null };
  return settings;
}

/** A value somebody chose, where this setting may be chosen; VS Code has already left out what a workspace may not set. */
function chosen(configuration: vscode.WorkspaceConfiguration, name: string): unknown {
  const found = configuration.inspect(name);
  const set =
    found?.globalValue !== undefined ||
    found?.workspaceValue !== undefined ||
    found?.workspaceFolderValue !== undefined;
  const value = set ? configuration.get(name) : undefined;
  return value === '' || value === null ? undefined : value;
}
