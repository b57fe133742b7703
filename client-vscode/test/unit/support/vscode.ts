/** A mock of the part of VS Code's API that the unit tests use. */

export class EventEmitter<T> {
  private readonly listeners = new Set<(value: T) => void>();
  readonly event = (listener: (value: T) => void) => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };
  fire(value: T): void {
    for (const listener of this.listeners) listener(value);
  }
  dispose(): void {
    this.listeners.clear();
  }
}

export const shown: string[] = [];
/** chooses the button of the next notification */
export const pressed: { next: ((message: string, buttons: readonly string[]) => string | undefined) | undefined } = {
  next: undefined,
};
export const settings: Record<string, unknown> = {};
/** the input of the next input box; undefined closes it */
export const input: { next: string | undefined } = { next: undefined };
/** the items of the last quick pick, and the function that picks one */
export const picked: {
  offered: readonly { label: string; description?: string }[];
  next: ((items: readonly { label: string }[]) => { label: string } | undefined) | undefined;
} = { offered: [], next: undefined };

export const l10n = {
  t: (message: string, ...values: (string | number)[]) =>
    message.replace(/\{(\d+)\}/g, (_, index) => String(values[Number(index)])),
};

export const window = {
  setStatusBarMessage: (text: string) => void shown.push(text),
  showInformationMessage: async (message: string, ...buttons: string[]) => {
    shown.push(message);
    return pressed.next?.(message, buttons);
  },
  showWarningMessage: async (message: string, ...buttons: string[]) => {
    shown.push(message);
    return pressed.next?.(message, buttons);
  },
  showInputBox: async () => input.next,
  showQuickPick: async (items: readonly { label: string }[]) => {
    picked.offered = items;
    return picked.next?.(items);
  },
};

export const ran: string[] = [];
export const commands = {
  executeCommand: async (command: string) => void ran.push(command),
};

/** the size and content of files, by path */
export const disk: Record<string, { size: number; text: string } | 'folder'> = {};
const FOUND = { file: 1, folder: 2 };
export const FileType = { File: FOUND.file, Directory: FOUND.folder };

export const workspace = {
  asRelativePath: (uri: { path: string }) => uri.path.replace(/^\/project\//, ''),
  fs: {
    stat: async ({ path }: { path: string }) => {
      const found = disk[path];
      if (!found) throw new Error('not found');
      return found === 'folder' ? { type: FOUND.folder, size: 0 } : { type: FOUND.file, size: found.size };
    },
    readFile: async ({ path }: { path: string }) => {
      const found = disk[path];
      return new TextEncoder().encode(found && found !== 'folder' ? found.text : '');
    },
  },
  isTrusted: true,
  workspaceFolders: undefined,
  getConfiguration: () => ({
    get: (name: string, otherwise?: unknown) => settings[name] ?? otherwise,
    update: async (name: string, value: unknown) => void Object.assign(settings, { [name]: value }),
  }),
};

export const ConfigurationTarget = { Global: 1 };
export const QuickPickItemKind = { Separator: -1 };

/** A log that records errors and warnings. */
export const logged: string[] = [];
export const LOG = {
  error: (text: string) => void logged.push(text),
  warn: (text: string) => void logged.push(text),
  info: () => {},
} as unknown as import('vscode').LogOutputChannel;
