/**
 * What the user's terminal shows, for `@terminal`: the last output of the active terminal, or what is selected in it.
 *
 * The output comes from VS Code's shell integration, which gives none for some commands that end at once. That output,
 * and the selection where there is no shell integration, can be read only through the clipboard, whose content is put
 * back.
 */

import * as vscode from 'vscode';
import type { TerminalResult } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

const MAX_OUTPUT = 40_000;

interface Output {
  command: string;
  text: string;
}

export class TerminalOutput implements vscode.Disposable {
  /** the last command of each terminal, with the end of its output */
  private readonly outputs = new Map<vscode.Terminal, Output>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(connection: Connection) {
    connection.answer('pilotfish/editor/terminal', () => this.read());
    this.subscriptions = [
      vscode.window.onDidStartTerminalShellExecution(({ terminal, execution }) => {
        void this.follow(terminal, execution);
      }),
      vscode.window.onDidCloseTerminal((terminal) => this.outputs.delete(terminal)),
    ];
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  private async follow(terminal: vscode.Terminal, execution: vscode.TerminalShellExecution): Promise<void> {
    const output: Output = { command: execution.commandLine.value, text: '' };
    // Set again, so that the terminal that was used last is the last one.
    this.outputs.delete(terminal);
    this.outputs.set(terminal, output);
    for await (const data of execution.read()) output.text = (output.text + data).slice(-MAX_OUTPUT);
  }

  private async read(): Promise<TerminalResult> {
    const active = vscode.window.activeTerminal;
    const output = (active && this.outputs.get(active)) ?? [...this.outputs.values()].at(-1);
    if (!output) return { text: active ? await copied('copySelection') : '' };
    const text = plainText(output.text) || plainText(active ? await copied('copyLastCommandOutput') : '');
    return { command: output.command, text };
  }
}

/** What a command of the active terminal copies. */
async function copied(command: 'copySelection' | 'copyLastCommandOutput'): Promise<string> {
  const before = await vscode.env.clipboard.readText();
  await vscode.env.clipboard.writeText('');
  try {
    await vscode.commands.executeCommand(`workbench.action.terminal.${command}`);
    return await vscode.env.clipboard.readText();
  } finally {
    await vscode.env.clipboard.writeText(before);
  }
}

/** The output without escape sequences; a line that was written again is its last form. */
export function plainText(output: string): string {
  return (
    output
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what escape sequences are made of
      .replace(/\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[[(][0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_=>]/g, '')
      .replace(/\r+\n/g, '\n')
      .split('\n')
      .map((line) => line.slice(line.lastIndexOf('\r') + 1))
      .join('\n')
      .trim()
  );
}
