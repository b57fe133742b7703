/** What a failed call did not do, and why, in one line: "Not written: src/auth.ts had not been read first". */

import type { ToolCall } from '../../src/protocol.gen.ts';
import { escaped, relative } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';

const MAX_REASON = 140;

/** `title` is the server's title, which starts with a verb. `folder` is the workspace folder, for relative paths. */
export function failedTitle(call: ToolCall, title: string, folder: string | undefined): string {
  const error = call.error ?? '';
  const [verb = '', ...rest] = title.split(' ');
  const what = rest.join(' ');
  if (verb === 'Run') {
    const text = `${error} ${call.result?.text ?? ''}`;
    const code = /exit (?:code |status )?(\d+)/.exec(text)?.[1];
    if (code !== undefined) return l10n.t('Ran {0}, exit {1}', what, code);
    if (/\bended by signal|^stopped, with/m.test(text)) return l10n.t('Ran {0}, stopped', what);
  }
  return `${notDone(verb) ?? l10n.t('Failed')}: ${reason(call, folder) || (what === '' ? title : what)}`;
}

/** Whether the call ran and ended with an error of its own, so that its output is worth reading. */
export function hasRun({ category, result }: ToolCall): boolean {
  return category === 'execute' && result !== undefined;
}

function notDone(verb: string): string | undefined {
  switch (verb) {
    case 'Run':
      return l10n.t('Not run');
    case 'Edit':
    case 'Patch':
      return l10n.t('Not changed');
    case 'Write':
      return l10n.t('Not written');
    case 'Delete':
      return l10n.t('Not deleted');
    case 'Rename':
      return l10n.t('Not renamed');
    case 'Move':
      return l10n.t('Not moved');
    case 'Read':
      return l10n.t('Not read');
    case 'Find':
    case 'Search':
      return l10n.t('Not searched');
    case 'List':
      return l10n.t('Not listed');
    case 'Check':
      return l10n.t('Not checked');
    case 'Fetch':
      return l10n.t('Not fetched');
    default:
      return undefined;
  }
}

/** The reasons are written for the model and say what it should do next; the user needs only what was wrong. */
function reason(call: ToolCall, folder: string | undefined): string {
  const { error = '', args } = call;
  const place = call.locations[0]?.uri ?? (typeof args.path === 'string' ? args.path : undefined);
  const file = place === undefined ? l10n.t('the file') : escaped(relative(place, folder));
  if (/has not been read/.test(error)) return l10n.t('{0} had not been read first', file);
  if (/since (?:it was|you) read|changed since|been deleted since|keeps changing/.test(error))
    return l10n.t('{0} has changed since it was read', file);
  if (/old_string is not in the file|is not in the file/.test(error))
    return l10n.t('the text to replace is not in {0}', file);
  if (/old_string .*(?:times|places)|occurs \d+ times|several places/.test(error))
    return l10n.t('the text to replace is in {0} more than once', file);
  if (/nothing would change/.test(error)) return l10n.t('nothing would change in {0}', file);
  if (/does not exist/.test(error)) return l10n.t('{0} does not exist', file);
  const [clause = ''] = withRelativePaths(error, folder).split(/[;\n]|\. |\.$/, 1);
  return escaped(clause.length > MAX_REASON ? `${clause.slice(0, MAX_REASON - 1)}…` : clause).trim();
}

/** The text with the paths inside the workspace relative to it. */
export function withRelativePaths(text: string, folder: string | undefined): string {
  const root = folder === undefined ? '' : relative(folder, undefined).replace(/\/$/, '');
  return root === '' ? text : text.replaceAll(`${root}/`, '');
}
