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
/** the input of the next input box, by its prompt if it is a function; undefined closes it */
export const input: { next: string | undefined | ((prompt: string) => string | undefined) } = { next: undefined };
/** the items of the last quick pick, and the function that picks one */
export const picked: {
  offered: readonly { label: string; description?: string }[];
  next: ((items: readonly { label: string }[]) => { label: string } | undefined) | undefined;
} = { offered: [], next: undefined };

/** the files that the next open dialog returns */
export const opened: { next: { fsPath: string }[] | undefined } = { next: undefined };

export class CancellationTokenSource {
  private readonly cancelled = new EventEmitter<void>();
  readonly token = { isCancellationRequested: false, onCancellationRequested: this.cancelled.event };
  cancel(): void {
    this.token.isCancellationRequested = true;
    this.cancelled.fire();
  }
  dispose(): void {}
}

export const l10n = {
  t: (message: string, ...values: (string | number)[]) =>
    message.replace(/\{(\d+)\}/g, (_, index) => String(values[Number(index)])),
};

/** the open picker that `createQuickPick` made last */
export const live = {
  items: [] as readonly { label: string; description?: string }[],
  accepted: () => {},
  hide: () => {},
  selected: [] as unknown[],
  accept(label: string): void {
    live.selected = live.items.filter((item) => item.label === label);
    live.accepted();
  },
};

export const window = {
  createQuickPick: () => {
    const hidden = new EventEmitter<void>();
    live.hide = () => hidden.fire();
    return {
      set items(items: typeof live.items) {
        live.items = items;
      },
      get selectedItems() {
        return live.selected;
      },
      onDidAccept: (listener: () => void) => {
        live.accepted = listener;
      },
      onDidTriggerItemButton: () => {},
      onDidChangeValue: () => {},
      onDidHide: hidden.event,
      show: () => {},
      hide: () => hidden.fire(),
      dispose: () => {},
    };
  },
  setStatusBarMessage: (text: string) => void shown.push(text),
  showInformationMessage: async (message: string, ...buttons: string[]) => {
    shown.push(message);
    return pressed.next?.(message, buttons);
  },
  showWarningMessage: async (message: string, ...buttons: string[]) => {
    shown.push(message);
    return pressed.next?.(message, buttons);
  },
  showOpenDialog: async () => opened.next,
  showInputBox: async ({ prompt = '' }: { prompt?: string }) =>
    typeof input.next === 'function' ? input.next(prompt) : input.next,
  withProgress: async <T>(_: unknown, work: (progress: unknown, token: unknown) => Promise<T>) => work({}, undefined),
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

export const ProgressLocation = { Notification: 15 };
export const extensions = { getExtension: () => undefined };
export const ConfigurationTarget = { Global: 1 };
export class ThemeIcon {
  readonly id: string;
  constructor(id: string) {
    this.id = id;
  }
}
export const QuickPickItemKind = { Separator: -1 };

/** A log that records errors and warnings. */
export const logged: string[] = [];
export const LOG = {
  error: (text: string) => void logged.push(text),
  warn: (text: string) => void logged.push(text),
  info: () => {},
} as unknown as import('vscode').LogOutputChannel;

// The language models of VS Code.
export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}
export class LanguageModelToolCallPart {
  constructor(
    readonly callId: string,
    readonly name: string,
    readonly input: object,
  ) {}
}
export class LanguageModelToolResultPart {
  constructor(
    readonly callId: string,
    readonly content: unknown[],
  ) {}
}
export class LanguageModelDataPart {
  constructor(
    readonly data: Uint8Array,
    readonly mimeType: string,
  ) {}
  static image(data: Uint8Array, mimeType: string) {
    return new LanguageModelDataPart(data, mimeType);
  }
}
export class LanguageModelChatMessage {
  constructor(
    readonly role: string,
    readonly content: unknown[],
  ) {}
  static User(content: unknown[]) {
    return new LanguageModelChatMessage('user', content);
  }
  static Assistant(content: unknown[]) {
    return new LanguageModelChatMessage('assistant', content);
  }
}
export class LanguageModelError extends Error {
  readonly code: string;
  constructor(message?: string, code = 'Unknown', options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
  static NotFound(message?: string) {
    return new LanguageModelError(message, 'NotFound');
  }
}
/** the models of all extensions, and the event that they changed */
export const chatModels: { all: { vendor: string; id: string }[]; changed: EventEmitter<void> } = {
  all: [],
  changed: new EventEmitter<void>(),
};
export const lm = {
  onDidChangeChatModels: chatModels.changed.event,
  selectChatModels: async (wanted?: { vendor: string; id: string }) =>
    chatModels.all.filter((model) => !wanted || (model.vendor === wanted.vendor && model.id === wanted.id)),
};

// Editors and what is drawn in them.
export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}
export class Range {
  constructor(
    readonly start: Position,
    readonly end: Position,
  ) {}
}
export class ThemeColor {
  constructor(readonly id: string) {}
}
export class MarkdownString {
  value = '';
  isTrusted: unknown;
  appendText(text: string): this {
    this.value += text.replace(/[\\`*_{}[\]()#+\-.!]/g, '\\$&');
    return this;
  }
  appendMarkdown(text: string): this {
    this.value += text;
    return this;
  }
}

/** One open editor. `drawn` has its decorations, in place of `setDecorations` of the editor. */
export class TextEditor {
  drawn: readonly unknown[] = [];
  readonly document: { uri: { toString(): string }; lineCount: number; lineAt(line: number): { range: Range } };
  constructor(uri: string, lines: readonly string[]) {
    this.document = {
      uri: { toString: () => uri },
      lineCount: lines.length,
      lineAt: (line) => ({ range: new Range(new Position(line, 0), new Position(line, lines[line]?.length ?? 0)) }),
    };
  }
  setDecorations(_: unknown, decorations: readonly unknown[]): void {
    this.drawn = decorations;
  }
}

type Changed = { document: TextEditor['document'] };
export const documentChanged = new EventEmitter<Changed>();
/** Shows an editor, as the active one. */
export function showEditor(editor: TextEditor | undefined): void {
  Object.assign(window, {
    activeTextEditor: editor,
    visibleTextEditors: editor ? [editor] : [],
    createTextEditorDecorationType: () => ({ dispose: () => {} }),
    onDidChangeVisibleTextEditors: new EventEmitter<void>().event,
  });
  Object.assign(workspace, {
    onDidChangeTextDocument: documentChanged.event,
    onDidCloseTextDocument: new EventEmitter<void>().event,
  });
}
