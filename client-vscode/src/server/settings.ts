/**
 * Converts VS Code settings to the settings of the protocol.
 *
 * Settings at their default are not sent, so that the user's `config.toml` and environment apply.
 */

import * as vscode from 'vscode';
import type { Settings } from '../protocol.gen.ts';

/** Settings whose names and values are the same in the protocol. */
const SAME_NAMES = [
  'model',
  'fallbackModel',
  'completionModel',
  'baseUrl',
  'mode',
  'thinking',
  'temperature',
  'rules',
  'maxIterations',
  'toolTimeout',
  'stallTimeout',
  'titles',
  'verifyClaims',
  'tryCommands',
  'languageServers',
  'checkCommand',
  'contextWindow',
  'toolRetries',
  'toolHistoryRounds',
  'maxToolOutput',
  'maxParallelTools',
  'storage',
  'instructionFiles',
  'mcpConfig',
  'sandbox',
  'network',
  'allowedHosts',
] as const satisfies readonly (keyof Settings)[];

/** All settings for the server; null for those that the user has not set. */
export function serverSettings(): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration('pilotfish');
  const settings: Record<string, unknown> = {};
  for (const name of SAME_NAMES) settings[name] = userValue(configuration, name) ?? null;
  const tokens = userValue(configuration, 'budget.tokens');
  const cost = userValue(configuration, 'budget.cost');
  settings.budget = tokens === undefined && cost === undefined ? null : { tokens: tokens ?? null, cost: cost ?? null };
  return settings;
}

/** The value that the user or workspace has set. VS Code ignores workspace values of machine-scoped settings. */
function userValue(configuration: vscode.WorkspaceConfiguration, name: string): unknown {
  const found = configuration.inspect(name);
  const set =
    found?.globalValue !== undefined ||
    found?.workspaceValue !== undefined ||
    found?.workspaceFolderValue !== undefined;
  const value = set ? configuration.get(name) : undefined;
  return value === '' || value === null ? undefined : value;
}
