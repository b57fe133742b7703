/**
 * Runs the programs that find and install the server.
 *
 * They never run in the workspace, and never from it: a folder that the user only opened must not decide which Python
 * gets the user's keys. Programs are looked up in the absolute folders of the PATH that are outside the workspace.
 */

import { execFile } from 'node:child_process';
import { accessSync, constants, realpathSync } from 'node:fs';
import path from 'node:path';
import type { CancellationToken } from 'vscode';

const TIMEOUT_MS = 15_000;

/** Where programs run, and the folders of the workspace. */
export interface Surroundings {
  /** an existing folder of the extension */
  storage: string;
  folders: readonly string[];
}

/** Runs a program in the extension's storage and returns its output. On failure, the error carries it in `output`. */
export function run(
  { storage }: Surroundings,
  program: string,
  args: readonly string[],
  { token, timeout = TIMEOUT_MS }: { token?: CancellationToken; timeout?: number } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [...args],
      { cwd: storage, timeout, maxBuffer: 16 << 20, windowsHide: true },
      (error, stdout, stderr) => {
        if (error) reject(Object.assign(error, { output: `${stdout}\n${stderr}`.trim() }));
        else resolve(`${stdout}\n${stderr}`.trim());
      },
    );
    token?.onCancellationRequested(() => child.kill());
  });
}

/** The absolute path of a program on the PATH, or undefined. Skips relative folders and those of the workspace. */
export function findProgram({ folders }: Surroundings, name: string): string | undefined {
  const suffixes = process.platform === 'win32' ? ['.exe', '.cmd', '.bat'] : [''];
  const places = (process.env.PATH ?? '').split(path.delimiter).filter((place) => path.isAbsolute(place));
  return places
    .flatMap((place) => suffixes.map((suffix) => path.join(place, name + suffix)))
    .find((file) => isExecutable(file) && !isInside(file, folders));
}

/** Whether the file, or the file that it links to, is in one of the folders. */
export function isInside(file: string, folders: readonly string[]): boolean {
  const places = [file, realPath(file), path.join(realPath(path.dirname(file)), path.basename(file))];
  const roots = folders.flatMap((folder) => [folder, realPath(folder)]);
  return places.some((place) =>
    roots.some((root) => {
      const relative = path.relative(root, place);
      return !(relative === '..' || relative.startsWith(`..${path.sep}`) || path.isAbsolute(relative));
    }),
  );
}

function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
