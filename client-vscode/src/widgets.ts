/**
 * The only module that hands text to VS Code's own widgets: notifications, dialogs, pickers, input boxes, the status
 * bar, tree items, tooltips and code lenses.
 *
 * Such text may come from a model, a file name or a server, and VS Code reads some of it as markup: `[x](command:y)` in
 * a notification is a link that runs a command, `$(name)` in a label is an icon. Every function here makes its text
 * literal first. `test/unit/widgets.test.ts` finds a call of the editor's functions anywhere else.
 */

import * as vscode from 'vscode';
import { escaped } from '../webview/common/format.ts';

/** An icon as VS Code's label parser recognises it. */
const ICON = /\$\([A-Za-z0-9-]+(?:~[A-Za-z0-9-]+)?\)/g;

/** The text of a message: no links, no hidden characters, and line breaks are visible. */
export function plain(text: string): string {
  return escaped(text)
    .replace(/\r?\n|\r/g, ' ⏎ ')
    .replace(/\](?=\()/g, '] ');
}

/** The text of a label, which is not a message and not Markdown: additionally no icons. */
export function label(text: string): string {
  return plain(text).replace(ICON, '\\$&');
}

export function showInfo(message: string, ...buttons: readonly string[]): Promise<string | undefined> {
  return choose((text, ...titles) => vscode.window.showInformationMessage(text, ...titles), message, buttons);
}

export function showWarning(message: string, ...buttons: readonly string[]): Promise<string | undefined> {
  return choose((text, ...titles) => vscode.window.showWarningMessage(text, ...titles), message, buttons);
}

export function showError(message: string, ...buttons: readonly string[]): Promise<string | undefined> {
  return choose((text, ...titles) => vscode.window.showErrorMessage(text, ...titles), message, buttons);
}

/** Shows a dialog. Its detail may have several lines. */
export function showDialog(
  kind: 'info' | 'warning',
  message: string,
  detail: string,
  ...buttons: readonly string[]
): Promise<string | undefined> {
  const options = { modal: true, detail: detail.split('\n').map(plain).join('\n') };
  return kind === 'info'
    ? choose((text, ...titles) => vscode.window.showInformationMessage(text, options, ...titles), message, buttons)
    : choose((text, ...titles) => vscode.window.showWarningMessage(text, options, ...titles), message, buttons);
}

async function choose(
  show: (message: string, ...titles: string[]) => Thenable<string | undefined>,
  message: string,
  buttons: readonly string[],
): Promise<string | undefined> {
  const titles = buttons.map(label);
  const pressed = await show(plain(message), ...titles);
  return pressed === undefined ? undefined : buttons[titles.indexOf(pressed)];
}

/** Shows that something is done, until it is done. The user can cancel it. */
export async function withProgress<T>(
  title: string,
  work: (token: vscode.CancellationToken) => Promise<T>,
): Promise<T> {
  const options = { location: vscode.ProgressLocation.Notification, title: plain(title), cancellable: true };
  return vscode.window.withProgress(options, (_, token) => work(token));
}

/** Asks the user for a file. */
export async function chooseFile(
  openLabel: string,
  filters: Record<string, string[]>,
): Promise<vscode.Uri | undefined> {
  return (await vscode.window.showOpenDialog({ openLabel: label(openLabel), filters }))?.[0];
}

/** Shows a text in the status bar for a short time. */
export function flashStatus(text: string, ms: number): void {
  vscode.window.setStatusBarMessage(label(text), ms);
}

export interface PickItem {
  label: string;
  description?: string;
  detail?: string;
  /** the name of a codicon */
  icon?: string;
  buttons?: readonly vscode.QuickInputButton[];
  alwaysShow?: boolean;
}

export interface PickSeparator {
  separator: string;
}

/** Asks the user to pick one of the items. */
export async function pick<T extends PickItem>(
  items: readonly (T | PickSeparator)[],
  options: { title: string; placeHolder?: string },
): Promise<T | undefined> {
  const shown = items.map(quickPickItem<T>);
  const picked = await vscode.window.showQuickPick(shown, {
    title: label(options.title),
    ...(options.placeHolder !== undefined && { placeHolder: label(options.placeHolder) }),
    matchOnDescription: true,
    matchOnDetail: true,
  });
  return picked?.item;
}

/** A picker whose items change while it is open. */
export class LivePicker<T extends PickItem> {
  private readonly picker = vscode.window.createQuickPick<QuickPickItem<T>>();
  private shown: readonly T[] = [];

  constructor(
    title: string,
    placeholder: string,
    handle: {
      accept: (item: T) => void;
      button?: (item: T) => void;
      type?: (value: string) => void;
      hide?: () => void;
    },
  ) {
    this.picker.title = label(title);
    this.picker.placeholder = label(placeholder);
    this.picker.matchOnDescription = true;
    this.picker.onDidAccept(() => {
      const item = this.picker.selectedItems[0]?.item;
      if (item) handle.accept(item);
    });
    this.picker.onDidTriggerItemButton(({ item }) => item.item && handle.button?.(item.item));
    if (handle.type) this.picker.onDidChangeValue(handle.type);
    this.picker.onDidHide(() => {
      handle.hide?.();
      this.picker.dispose();
    });
  }

  get items(): readonly T[] {
    return this.shown;
  }

  setItems(items: readonly T[]): void {
    this.shown = items;
    this.picker.items = items.map(quickPickItem<T>);
  }

  setBusy(busy: boolean): void {
    this.picker.busy = busy;
  }

  show(): void {
    this.picker.show();
  }

  hide(): void {
    this.picker.hide();
  }
}

type QuickPickItem<T> = vscode.QuickPickItem & { item?: T };

function quickPickItem<T extends PickItem>(item: T | PickSeparator): QuickPickItem<T> {
  if ('separator' in item) return { label: label(item.separator), kind: vscode.QuickPickItemKind.Separator };
  return {
    item,
    label: label(item.label),
    ...(item.description !== undefined && { description: label(item.description) }),
    ...(item.detail !== undefined && { detail: label(item.detail) }),
    ...(item.icon !== undefined && { iconPath: new vscode.ThemeIcon(item.icon) }),
    ...(item.buttons && { buttons: item.buttons }),
    ...(item.alwaysShow !== undefined && { alwaysShow: item.alwaysShow }),
  };
}

export interface InputOptions {
  title: string;
  prompt?: string;
  value?: string;
  placeHolder?: string;
  password?: boolean;
  /** returns why the input is not valid */
  validate?: (text: string) => string | undefined;
}

/** Asks the user for a line of text. It stays open while the user looks something up elsewhere. */
export async function askText(options: InputOptions): Promise<string | undefined> {
  const { validate } = options;
  return vscode.window.showInputBox({
    title: label(options.title),
    ignoreFocusOut: true,
    ...(options.prompt !== undefined && { prompt: label(options.prompt) }),
    ...(options.value !== undefined && { value: options.value }),
    ...(options.placeHolder !== undefined && { placeHolder: label(options.placeHolder) }),
    ...(options.password !== undefined && { password: options.password }),
    ...(validate && {
      validateInput: (text: string) => {
        const fault = validate(text);
        return fault === undefined ? undefined : label(fault);
      },
    }),
  });
}

export interface StatusContent {
  /** the name of a codicon */
  icon: string;
  text: string;
  tooltip: readonly string[];
  background?: 'warning' | 'error';
}

/** An item of the status bar. */
export class StatusItem implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;

  constructor(id: string, name: string, command: string, priority: number) {
    this.item = vscode.window.createStatusBarItem(id, vscode.StatusBarAlignment.Right, priority);
    this.item.name = name;
    this.item.command = command;
  }

  show({ icon, text, tooltip, background }: StatusContent): void {
    this.item.text = `$(${icon}) ${label(text)}`;
    const lines = new vscode.MarkdownString();
    for (const line of tooltip) lines.appendText(escaped(line)).appendMarkdown('  \n');
    this.item.tooltip = lines;
    this.item.backgroundColor =
      background === undefined ? undefined : new vscode.ThemeColor(`statusBarItem.${background}Background`);
    this.item.show();
  }

  dispose(): void {
    this.item.dispose();
  }
}

export interface TreeItemContent {
  id: string;
  label: string;
  description?: string;
  tooltip?: readonly string[];
  icon?: string;
  contextValue?: string;
  command?: vscode.Command;
  expanded?: boolean;
}

export function treeItem(content: TreeItemContent): vscode.TreeItem {
  const { Expanded, None } = vscode.TreeItemCollapsibleState;
  const item = new vscode.TreeItem(label(content.label), content.expanded ? Expanded : None);
  item.id = content.id;
  if (content.description !== undefined) item.description = label(content.description);
  if (content.tooltip) item.tooltip = content.tooltip.map(plain).join('\n');
  if (content.icon !== undefined) item.iconPath = new vscode.ThemeIcon(content.icon);
  if (content.contextValue !== undefined) item.contextValue = content.contextValue;
  if (content.command) item.command = content.command;
  item.accessibilityInformation = { label: [content.label, content.description ?? ''].map(plain).join(', ') };
  return item;
}

/** Shows a text beside the title of a view. */
export function describeView(view: vscode.WebviewView, text: string): void {
  view.description = label(text);
}

export function viewBadge(waiting: number, finished: number): vscode.ViewBadge {
  const questions =
    waiting === 1 ? vscode.l10n.t('1 question waiting') : vscode.l10n.t('{0} questions waiting', waiting);
  const results =
    finished === 1 ? vscode.l10n.t('1 session finished') : vscode.l10n.t('{0} sessions finished', finished);
  const tooltip = [...(waiting > 0 ? [questions] : []), ...(finished > 0 ? [results] : [])].join(', ');
  return { value: waiting + finished, tooltip };
}

const MAX_HOVER_CHARS = 4000;

/** A hover with a title and a text, which is shown literally. */
export function codeHover(title: string, code: string): vscode.MarkdownString {
  const shown = code.length > MAX_HOVER_CHARS ? `${code.slice(0, MAX_HOVER_CHARS)}\n…` : code;
  return new vscode.MarkdownString().appendText(escaped(title)).appendCodeblock(shown);
}

/** A hover with a text, which is shown literally, and a link that runs one of our commands. */
export function linkHover(text: string, title: string, command: string, argument: unknown): vscode.MarkdownString {
  const hover = new vscode.MarkdownString().appendText(escaped(text));
  const args = encodeURIComponent(JSON.stringify([argument]));
  hover.appendMarkdown(`\n\n[${title}](command:${command}?${args})`);
  hover.isTrusted = { enabledCommands: [command] };
  return hover;
}

/** The code lenses of the server, with literal titles. */
export function literalLenses<T extends vscode.CodeLens>(
  lenses: readonly T[] | null | undefined,
): T[] | null | undefined {
  return lenses?.map((lens) => {
    if (lens.command) lens.command = { ...lens.command, title: label(lens.command.title) };
    return lens;
  });
}
