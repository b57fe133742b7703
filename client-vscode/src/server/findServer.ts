/** Finds the server: the configured command, our own environment, the selected Python's environment, or the PATH. */

import { existsSync } from 'node:fs';
import path from 'node:path';
import * as vscode from 'vscode';
import { findProgram, isInside, run, type Surroundings } from './programs.ts';

/** A command line and the version that it reported. */
export interface FoundServer {
  command: readonly string[];
  version: string;
  from: 'setting' | 'python' | 'path' | 'own';
}

export interface SearchResult {
  found: FoundServer | undefined;
  /** why each other candidate was rejected, for the user */
  rejected: readonly string[];
}

/**
 * Returns the first candidate with a compatible version. A configured command is used without this check.
 *
 * In Restricted Mode only the configured command and our own installation count: nothing else is started, not even to
 * ask for its version.
 */
export async function findServer(
  own: readonly string[] | undefined,
  wanted: string,
  surroundings: Surroundings,
  log: vscode.LogOutputChannel,
): Promise<SearchResult> {
  const configured = vscode.workspace.getConfiguration('pilotfish').get<string[]>('server.command', []);
  if (configured.length > 0) {
    // A command that does not work fails with its own message when it is started.
    const version = (await versionOf(surroundings, configured)) ?? '';
    return { found: { command: configured, version, from: 'setting' }, rejected: [] };
  }
  if (own) return { found: { command: own, version: wanted, from: 'own' }, rejected: [] };
  if (!vscode.workspace.isTrusted) return { found: undefined, rejected: [] };
  const rejected: string[] = [];
  const candidates: { from: FoundServer['from']; command: string | undefined }[] = [
    { from: 'python', command: await inSelectedPython() },
    { from: 'path', command: findProgram(surroundings, 'pilotfish') },
  ];
  for (const { from, command } of candidates) {
    if (command === undefined) continue;
    if (isInside(command, surroundings.folders)) {
      // It would be given the user's keys, so it takes more than opening the folder.
      rejected.push(
        vscode.l10n.t('{0} is part of this folder. To use it, set pilotfish.server.command to its path.', command),
      );
      continue;
    }
    const version = await versionOf(surroundings, [command]);
    if (version === undefined) continue;
    if (isCompatible(version, wanted)) return { found: { command: [command], version, from }, rejected };
    rejected.push(vscode.l10n.t('{0} is version {1}; this extension needs {2}.', command, version, wanted));
    log.info(`rejected ${command}: version ${version}, needed ${wanted}`);
  }
  return { found: undefined, rejected };
}

/** Versions with the same major and minor number use the same protocol. */
export function isCompatible(version: string, wanted: string): boolean {
  const [major, minor] = version.split('.');
  const [wantedMajor, wantedMinor] = wanted.split('.');
  return major === wantedMajor && minor === wantedMinor;
}

async function versionOf(surroundings: Surroundings, command: readonly string[]): Promise<string | undefined> {
  const [program, ...rest] = command;
  if (program === undefined) return undefined;
  // A configured command may include `serve`; `--version` has to come before it.
  const args = rest.includes('serve') ? rest.slice(0, rest.indexOf('serve')) : rest;
  const output = await run(surroundings, program, [...args, '--version']).catch(() => undefined);
  return output === undefined ? undefined : (/\d+\.\d+\.\d+\S*/.exec(output)?.[0] ?? undefined);
}

/** `pilotfish` in the environment that the Python extension has selected, if it is installed there. */
async function inSelectedPython(): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<PythonExtension>('ms-python.python');
  if (!extension) return undefined;
  try {
    const api = extension.isActive ? extension.exports : await extension.activate();
    const environment = await api.environments?.resolveEnvironment(api.environments.getActiveEnvironmentPath());
    const python = environment?.executable.uri?.fsPath;
    if (python === undefined) return undefined;
    const script = path.join(path.dirname(python), process.platform === 'win32' ? 'pilotfish.exe' : 'pilotfish');
    return existsSync(script) ? script : undefined;
  } catch {
    return undefined;
  }
}

interface PythonExtension {
  environments?: {
    getActiveEnvironmentPath(): unknown;
    resolveEnvironment(path: unknown): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
  };
}
