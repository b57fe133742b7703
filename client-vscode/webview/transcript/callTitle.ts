/** The title of a tool call, depending on its status: "Running: npm test", "Ran npm test", "Not run: …". */

import type { CallStatus, ToolCall } from '../../src/protocol.gen.ts';
import { escaped, statusLabel } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import type { Call } from '../state/state.ts';
import { failedTitle } from './failedCall.ts';

export function callTitle({ call, written }: Call, folder?: string): string {
  const hasTitle = call.title !== '' && call.title !== call.name;
  const title = escaped((hasTitle ? call.title : streamingTitle(call.name, written)).split('\n', 1)[0] ?? '');
  const status = displayStatus(call);
  switch (status) {
    case 'pending':
      return title;
    case 'awaiting_approval':
    case 'in_progress':
    case 'denied':
    case 'cancelled':
      return `${statusLabel(status)}: ${withoutVerb(title)}`;
    case 'completed':
      return pastTense(title);
    case 'failed':
      return failedTitle(call, title, folder);
    default:
      return status satisfies never;
  }
}

/** A call whose approval no one answered is shown as stopped, not as denied. */
export function displayStatus(call: ToolCall): CallStatus {
  return call.status === 'denied' && call.approval?.by === 'nobody' ? 'cancelled' : call.status;
}

/** The server's titles start with a verb. Returns the title in the past tense, or unchanged for an unknown verb. */
function pastTense(title: string): string {
  const [verb = '', ...rest] = title.split(' ');
  const what = rest.join(' ');
  if (what === '') return title;
  switch (verb) {
    case 'Run':
      return l10n.t('Ran {0}', what);
    case 'Edit':
      return l10n.t('Edited {0}', what);
    case 'Write':
      return l10n.t('Wrote {0}', what);
    case 'Delete':
      return l10n.t('Deleted {0}', what);
    case 'Patch':
      return l10n.t('Patched {0}', what);
    case 'Move':
      return l10n.t('Moved {0}', what);
    case 'Rename':
      return l10n.t('Renamed {0}', what);
    case 'Find':
      return l10n.t('Looked for {0}', what);
    case 'Search':
      return l10n.t('Searched {0}', what);
    case 'List':
      return l10n.t('Listed {0}', what);
    case 'Check':
      return l10n.t('Checked {0}', what);
    case 'Fetch':
      return l10n.t('Fetched {0}', what);
    default:
      return title;
  }
}

/** The title after a status: commands without their verb, other titles in lower case. */
function withoutVerb(title: string): string {
  if (title.startsWith('Run ')) return title.slice(4);
  return /^[A-Z][a-z]+ /.test(title) ? title.charAt(0).toLowerCase() + title.slice(1) : title;
}

/** The title of a call whose arguments are still being streamed. */
function streamingTitle(name: string, written: string): string {
  const verbs: Record<string, string> = {
    bash: l10n.t('Run'),
    glob: l10n.t('Find'),
    grep: l10n.t('Search'),
    list_dir: l10n.t('List'),
    read_file: l10n.t('Read'),
    update_file: l10n.t('Edit'),
    write_file: l10n.t('Write'),
  };
  const verb = verbs[name];
  if (verb === undefined) return name;
  const what = /"(?:path|command|pattern)"\s*:\s*"((?:[^"\\]|\\.)*)/.exec(written)?.[1];
  return what === undefined ? `${verb}…` : `${verb} ${what}`;
}
