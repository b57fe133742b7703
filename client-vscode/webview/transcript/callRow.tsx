/** Rows of tool calls: one line each, with details on demand. */

import { useEffect, useState } from 'preact/hooks';
import type { CallStatus, ToolCall } from '../../src/protocol.gen.ts';
import { Button, Chevron, Icon, IconButton, Lines, memo } from '../common/controls.tsx';
import { parseUnifiedDiff } from '../common/diffLines.ts';
import { Diff, SHORT_DIFF } from '../common/diffView.tsx';
import { bytes, duration, escaped, files, statusLabel } from '../common/format.ts';
import type { IconName } from '../common/icons.ts';
import { l10n } from '../common/l10n.ts';
import { toggle } from '../state/actions.ts';
import type { Call } from '../state/state.ts';
import { post, state as store } from '../state/store.ts';
import { callTitle, displayStatus } from './callTitle.ts';
import { hasRun, withRelativePaths } from './failedCall.ts';

const STATUS_ICONS: Record<CallStatus, IconName> = {
  pending: 'loading',
  awaiting_approval: 'question',
  in_progress: 'loading',
  completed: 'check',
  failed: 'error',
  denied: 'circle-slash',
  cancelled: 'debug-stop',
};

/** The number of output lines that a running command shows. */
const TAIL_LINES = 5;
const MAX_RESULT = 20_000;

interface CallProps {
  entry: Call;
  toggled: boolean | undefined;
  diffOpen: boolean | undefined;
}

export const CallRow = memo(({ entry, toggled, diffOpen }: CallProps) => {
  const { call } = entry;
  const status = displayStatus(call);
  const running = status === 'in_progress' || status === 'pending';
  const diff = call.diff === undefined ? undefined : parseUnifiedDiff(call.diff);
  const short = diff !== undefined && diff.lines.length <= SHORT_DIFF;
  const open = toggled ?? (short || (call.status === 'failed' && hasRun(call)));
  const title = callTitle(entry, folder());
  return (
    <div class={`row call ${status}${call.parentId === undefined ? '' : ' child'}`}>
      <div class="row-line">
        <button
          type="button"
          class="row-head"
          aria-expanded={open}
          aria-label={status === 'failed' ? title : `${statusLabel(status)}: ${escaped(call.title || call.name)}`}
          onClick={() => toggle(entry.id, !open)}
        >
          <StatusIcon status={status} />
          <span class="row-title" title={escaped(call.title)}>
            {title}
          </span>
          {diff && <Lines added={diff.added} removed={diff.removed} />}
          <Chevron open={open} />
          <Elapsed call={call} />
        </button>
        {running && (
          <IconButton
            icon="debug-stop"
            label={l10n.t('Stop this step')}
            onPress={() => post({ type: 'stopCall', callId: entry.id })}
          />
        )}
      </div>
      {running && !open && <Tail entry={entry} />}
      {open && <CallBody entry={entry} diffOpen={diffOpen ?? false} />}
    </div>
  );
});

/** The workspace folder of the session. It does not change, so the rows need not be rendered again for it. */
function folder(): string | undefined {
  return store.peek().session?.workspaceFolder ?? undefined;
}

function CallBody({ entry, diffOpen }: { entry: Call; diffOpen: boolean }) {
  const { call } = entry;
  const place = call.locations[0];
  const text = call.result?.text ?? entry.progress;
  const diff = call.diff === undefined ? undefined : parseUnifiedDiff(call.diff);
  return (
    <div class="row-body">
      {call.approval?.feedback && <p class="note">{l10n.t('You said: {0}', call.approval.feedback)}</p>}
      {call.approval?.amended && <p class="note">{l10n.t('You changed this before it ran.')}</p>}
      {call.approval?.by === 'nobody' && (
        <p class="note">{l10n.t('No one answered the approval, so this did not run.')}</p>
      )}
      {call.approval?.by === 'rule' && (
        <p class="note">{l10n.t('Decided by a rule: {0}', call.approval.rule ?? call.approval.reason)}</p>
      )}
      {call.recovered && <p class="note">{l10n.t('The model wrote this call as text. Pilotfish recognised it.')}</p>}
      {call.error && !/^exit (code |status )?\d+\.?$/.test(call.error) && (
        <p class="note error-text">{escaped(withRelativePaths(call.error, folder()))}</p>
      )}
      {diff ? (
        <Diff
          lines={diff.lines}
          uri={place?.uri}
          open={diffOpen}
          onOpen={(value) => toggle(`${entry.id}/diff`, value)}
          {...(place && { onEditor: () => post({ type: 'openCallDiff', uri: place.uri, diff: call.diff ?? '' }) })}
        />
      ) : (
        text.trim() !== '' &&
        !(call.error && text.includes(call.error) && text.length < call.error.length + 20) && (
          <Output call={call} text={text} />
        )
      )}
      {!diff && <Arguments call={call} written={entry.written} />}
    </div>
  );
}

function Output({ call, text }: { call: ToolCall; text: string }) {
  const cut = text.length > MAX_RESULT;
  return (
    <div class="output">
      <pre tabIndex={0} role="group" aria-label={l10n.t('Output')}>
        {cut ? text.slice(0, MAX_RESULT) : text}
      </pre>
      <div class="diff-foot">
        {call.result?.truncated && (
          <span class="meta">{l10n.t('Truncated. Total size: {0}', bytes(call.result.bytes))}</span>
        )}
        <Button kind="link" onPress={() => post({ type: 'openText', text, language: 'plaintext' })}>
          {l10n.t('Open in editor')}
        </Button>
        <Button kind="link" onPress={() => post({ type: 'copy', text })}>
          {l10n.t('Copy')}
        </Button>
      </div>
    </div>
  );
}

function Arguments({ call, written }: { call: ToolCall; written: string }) {
  const names = Object.keys(call.args);
  if (names.length === 0) return written ? <pre class="arguments">{written.slice(-2000)}</pre> : null;
  return (
    <dl class="arguments">
      {names.map((name) => {
        const value = call.args[name];
        const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1);
        return (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{escaped(text.length > 600 ? `${text.slice(0, 600)}…` : text)}</dd>
          </div>
        );
      })}
    </dl>
  );
}

function Tail({ entry }: { entry: Call }) {
  const text = entry.progress.trimEnd();
  if (text === '') return null;
  return <pre class="tail">{text.split('\n').slice(-TAIL_LINES).join('\n')}</pre>;
}

/** Consecutive read calls in one row. */
export const LookupsRow = memo(({ entries, toggled }: { entries: readonly Call[]; toggled: boolean | undefined }) => {
  const first = entries[0];
  const single = entries.length === 1 ? first : undefined;
  const last = entries.at(-1);
  if (!first || !last) return null;
  const open = toggled ?? false;
  const running = entries.some((entry) => entry.call.status === 'in_progress' || entry.call.status === 'pending');
  const stopped = entries.some((entry) => entry.call.status === 'cancelled');
  const status: CallStatus = running ? 'in_progress' : stopped ? 'cancelled' : 'completed';
  const title = single || running ? callTitle(last) : lookupsTitle(entries);
  const spent = entries.reduce((sum, entry) => sum + (entry.call.durationMs ?? 0), 0);
  return (
    <div class={`row call lookups ${status}`}>
      <div class="row-line">
        <button type="button" class="row-head" aria-expanded={open} onClick={() => toggle(first.id, !open)}>
          <StatusIcon status={status} />
          <span class="row-title">{title}</span>
          {running && entries.length > 1 && <span class="meta">{l10n.t('{0} lookups', entries.length)}</span>}
          <Chevron open={open} />
          {!running && spent >= 1000 && <span class="meta time">{duration(spent)}</span>}
        </button>
      </div>
      {open && single && <CallBody entry={single} diffOpen={false} />}
      {open && !single && (
        <ul class="row-body lookups-list">
          {entries.map((entry) => (
            <Lookup key={entry.id} entry={entry} />
          ))}
        </ul>
      )}
    </div>
  );
});

function Lookup({ entry }: { entry: Call }) {
  const place = entry.call.locations[0];
  const title = callTitle(entry);
  if (!place) return <li>{title}</li>;
  const line = place.range ? { line: place.range.start.line } : {};
  return (
    <li>
      <Button kind="link" onPress={() => post({ type: 'openFile', uri: place.uri, ...line })}>
        {title}
      </Button>
    </li>
  );
}

function lookupsTitle(entries: readonly Call[]): string {
  if (entries.length === 2) return entries.map((entry) => callTitle(entry)).join(' · ');
  const places = new Set(entries.flatMap((entry) => entry.call.locations.map((location) => location.uri)));
  if (places.size >= entries.length - 1) return l10n.t('Explored {0}', files(places.size));
  return l10n.t('{0} lookups', entries.length);
}

export function StatusIcon({ status }: { status: CallStatus }) {
  const spins = status === 'in_progress' || status === 'pending';
  return (
    <span class={`status ${status}`}>
      <Icon name={STATUS_ICONS[status]} spin={spins} />
    </span>
  );
}

/** How long the call has been running, or how long it took. */
function Elapsed({ call }: { call: ToolCall }) {
  const running = call.status === 'in_progress' && call.startedAt !== undefined;
  const [, tick] = useState(0);
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [running]);
  if (running) {
    const spent = Date.now() - Date.parse(call.startedAt ?? '');
    return spent >= 2000 ? <span class="meta time">{duration(spent)}</span> : null;
  }
  if (call.durationMs === undefined || call.durationMs < 1000) return null;
  return <span class="meta time">{duration(call.durationMs)}</span>;
}
