/** Where the server is: a command the user set, our own environment, the selected Python's, or one on the PATH. */

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import * as vscode from 'vscode';

/** A command line, and the version it answered with. */
export interface Found {
  command: readonly string[];
  version: string;
  from: 'setting' | 'python' | 'path' | 'own';
}

export interface Searched {
  found: Found | undefined;
  /** candidates that did not do, in words */
  passedOver: readonly string[];
}

const PROBE_MS = 15_000;

/** The first candidate whose version fits the extension's. A command from the settings is taken as it is. */
export async function findServer(own: string, wanted: string, log: vscode.LogOutputChannel): Promise<Searched> {
  const set = vscode.workspace.getConfiguration('pilotfish').get<string[]>('server.command', []);
  if (set.length > 0) {
    // Taken at the user's word: a command that does not run says so when it is started.
    return { found: { command: set, version: (await versionOf(set)) ?? '', from: 'setting' }, passedOver: [] };
  }
  const passedOver: string[] = [];
  const candidates: { from: Found['from']; command: string | undefined }[] = [
    { from: 'own', command: existsSync(own) ? own : undefined },
    { from: 'python', command: await besidePython() },
    { from: 'path', command: 'pilotfish' },
  ];
  for (const { from, command } of candidates) {
    if (command === undefined) continue;
    const version = await versionOf([command]);
    if (version === undefined) continue;
    if (fits(version, wanted)) return { found: { command: [command], version, from }, passedOver };
    passedOver.push(vscode.l10n.t('{0} is version {1}; this extension needs {2}.', command, version, wanted));
    log.info(`passed over ${command}: version ${version}, wanted ${wanted}`);
  }
  return { found: undefined, passedOver };
}

/** Versions fit when the protocol cannot differ: equal but for the last number. */
export function fits(version: string, wanted: string): boolean {
  const [major, minor] = version.split('.');
  const [wantedMajor, wantedMinor] = wanted.split('.');
  return major === wantedMajor && minor === wantedMinor;
}

async function versionOf(command: readonly string[]): Promise<string | undefined> {
  const [program, ...rest] = command;
  if (program === undefined) return undefined;
  // `serve` may be part of a command from the settings; the version is asked of what stands before it.
  const args = rest.includes('serve') ? rest.slice(0, rest.indexOf('serve')) : rest;
  const output = await run(program, [...args, '--version']).catch(() => undefined);
  return output === undefined ? undefined : (/\d+\.\d+\.\d+\S*/.exec(output)?.[0] ?? undefined);
}

/** `pilotfish` in the environment that the Python extension has selected, if both are there. */
async function besidePython(): Promise<string | undefined> {
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

/** Runs a program to its end; what it printed, or an error with what it said. */
export function run(
  program: string,
  args: readonly string[],
  token?: vscode.CancellationToken,
  timeout = PROBE_MS,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [...args],
      { timeout, maxBuffer: 16 << 20, windowsHide: true },
      (error, stdout, stderr) => {
        if (error) reject(Object.assign(error, { said: `${stdout}\n${stderr}`.trim() }));
        else resolve(`${stdout}\n${stderr}`.trim());
      },
    );
    token?.onCancellationRequested(() => child.kill());
  });
}
