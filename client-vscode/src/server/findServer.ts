/** Finds the server: the configured command, our own environment, the selected Python's environment, or the PATH. */

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import * as vscode from 'vscode';

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

const VERSION_TIMEOUT_MS = 15_000;

/** Returns the first candidate with a compatible version. A configured command is used without this check. */
export async function findServer(own: string, wanted: string, log: vscode.LogOutputChannel): Promise<SearchResult> {
  const configured = vscode.workspace.getConfiguration('pilotfish').get<string[]>('server.command', []);
  if (configured.length > 0) {
    // A command that does not work fails with its own message when it is started.
    const version = (await versionOf(configured)) ?? '';
    return { found: { command: configured, version, from: 'setting' }, rejected: [] };
  }
  const rejected: string[] = [];
  const candidates: { from: FoundServer['from']; command: string | undefined }[] = [
    { from: 'own', command: existsSync(own) ? own : undefined },
    { from: 'python', command: await inSelectedPython() },
    { from: 'path', command: 'pilotfish' },
  ];
  for (const { from, command } of candidates) {
    if (command === undefined) continue;
    const version = await versionOf([command]);
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

async function versionOf(command: readonly string[]): Promise<string | undefined> {
  const [program, ...rest] = command;
  if (program === undefined) return undefined;
  // A configured command may include `serve`; `--version` has to come before it.
  const args = rest.includes('serve') ? rest.slice(0, rest.indexOf('serve')) : rest;
  const output = await run(program, [...args, '--version']).catch(() => undefined);
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

/** Runs a program and returns its output. On failure, the error carries the output in `output`. */
export function run(
  program: string,
  args: readonly string[],
  token?: vscode.CancellationToken,
  timeout = VERSION_TIMEOUT_MS,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [...args],
      { timeout, maxBuffer: 16 << 20, windowsHide: true },
      (error, stdout, stderr) => {
        if (error) reject(Object.assign(error, { output: `${stdout}\n${stderr}`.trim() }));
        else resolve(`${stdout}\n${stderr}`.trim());
      },
    );
    token?.onCancellationRequested(() => child.kill());
  });
}
