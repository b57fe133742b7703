/** The rows of one turn: the prompt, the entries in order, and the end. */

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ContentBlock } from '../../src/protocol.gen.ts';
import { isComposing } from '../approvals/approvalCard.tsx';
import { Button, Chevron, Icon, IconButton, memo, Toolbar } from '../common/controls.tsx';
import { basename, count, duration, lineRange, promptText } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { draft, promptOf, setDraft } from '../composer/draft.ts';
import { Markdown } from '../markdown/markdown.tsx';
import { EMPTY_DRAFT } from '../messages.ts';
import { resend, restore, toggle, turnsAfter } from '../state/actions.ts';
import type { Entry, Prose, State, Turn } from '../state/state.ts';
import { newId, post } from '../state/store.ts';
import { CallRow, LookupsRow } from './callRow.tsx';
import { ClaimRow, NoticeRow } from './notice.tsx';
import type { Row } from './rows.ts';
import { TurnEndRow } from './turnEnd.tsx';

/** The state that rows need besides their turn. The object changes only if one of its values changes. */
export interface RowContext {
  folder: string | undefined;
  toggles: State['toggles'];
}

interface TurnProps {
  turn: Turn;
  rows: readonly Row[];
  context: RowContext;
  last: boolean;
  /** the number of this attempt if a later turn retries it; the turn is folded then */
  attempt: number | undefined;
}

export const TurnView = memo(({ turn, rows, context, last, attempt }: TurnProps) => {
  const folded = attempt !== undefined && !(context.toggles[`${turn.key}/attempt`] ?? false);
  return (
    <article class="turn" aria-label={promptText(turn.prompt).slice(0, 80) || l10n.t('Turn')} data-turn={turn.key}>
      {attempt !== undefined && <Attempt turn={turn} n={attempt} folded={folded} />}
      {!folded && rows.map((row) => <RowView key={row.key} row={row} context={context} last={last} />)}
    </article>
  );
});

function Attempt({ turn, n, folded }: { turn: Turn; n: number; folded: boolean }) {
  return (
    <div class="row attempt" data-row={`${turn.key}/attempt`}>
      <button
        type="button"
        class="row-head"
        aria-expanded={!folded}
        onClick={() => toggle(`${turn.key}/attempt`, folded)}
      >
        <Icon name={folded ? 'chevron-right' : 'chevron-down'} />
        <span class="row-title">{l10n.t('Attempt {0}', n)}</span>
        <span class="meta">{turn.end?.stopReason === 'failed' ? l10n.t('Failed') : l10n.t('Done')}</span>
      </button>
    </div>
  );
}

function RowView({ row, context, last }: { row: Row; context: RowContext; last: boolean }) {
  const { toggles } = context;
  switch (row.kind) {
    case 'prompt':
      return (
        <div class="row-slot whole" data-row={row.key}>
          <PromptBubble turn={row.turn} editing={toggles[`${row.turn.key}/edit`] ?? false} />
        </div>
      );
    case 'lookups':
      return (
        <div class="row-slot" data-row={row.key}>
          <LookupsRow entries={row.entries} toggled={toggles[row.key]} />
        </div>
      );
    case 'call': {
      return (
        <div class="row-slot" data-row={row.key}>
          <CallRow entry={row.entry} toggled={toggles[row.key]} diffOpen={toggles[`${row.key}/diff`]} />
        </div>
      );
    }
    case 'entry':
      return (
        <div class="row-slot" data-row={row.key}>
          <EntryRow
            entry={row.entry}
            live={row.last && row.turn.status === 'running'}
            toggled={toggles[row.key]}
            turnKey={row.turn.key}
            lastTurn={last}
          />
        </div>
      );
    case 'end':
      return (
        <div class="row-slot" data-row={row.key}>
          <TurnEndRow turn={row.turn} folder={context.folder} last={last} />
        </div>
      );
    default:
      return row satisfies never;
  }
}

const EntryRow = memo(
  ({
    entry,
    live,
    toggled,
    turnKey,
    lastTurn,
  }: {
    entry: Exclude<Entry, { kind: 'tool_call' }>;
    live: boolean;
    toggled: boolean | undefined;
    turnKey: string;
    lastTurn: boolean;
  }) => {
    switch (entry.kind) {
      case 'message':
        return <Markdown text={entry.text} live={live} />;
      case 'thought':
        return <Thought entry={entry} live={live} open={toggled ?? false} />;
      case 'steer':
        return (
          <div class="steer">
            <span class="meta">
              <Icon name="reply" /> {l10n.t('You, during the turn · Delivered')}
            </span>
            <Blocks prompt={entry.prompt} />
          </div>
        );
      case 'notice':
        return (
          <NoticeRow
            level={entry.level}
            message={entry.message}
            remedy={entry.remedy}
            cause={entry.cause}
            turnKey={turnKey}
            last={lastTurn}
          />
        );
      case 'claim':
        return <ClaimRow text={entry.text} verdict={entry.verdict} evidence={entry.evidence} />;
      case 'compaction':
        return (
          <details class="compaction" aria-label={l10n.t('Summary')}>
            <summary>
              <Icon name="layers" /> {l10n.t('Summarised: {0} → {1} tokens', count(entry.before), count(entry.after))}
            </summary>
            <Markdown text={entry.summary} live={false} />
          </details>
        );
      default:
        return entry satisfies never;
    }
  },
);

function Thought({ entry, live, open }: { entry: Prose; live: boolean; open: boolean }) {
  const spent = entry.began !== undefined && entry.grew !== undefined ? entry.grew - entry.began : 0;
  const title = live ? l10n.t('Thinking') : spent >= 1000 ? l10n.t('Thought {0}', duration(spent)) : l10n.t('Thought');
  return (
    <div class="row thought">
      <div class="row-line">
        <button type="button" class="row-head" aria-expanded={open} onClick={() => toggle(entry.id, !open)}>
          <span class="status">
            <Icon name={live ? 'loading' : 'thinking'} spin={live} />
          </span>
          <span class="row-title">{title}</span>
          <Chevron open={open} />
        </button>
      </div>
      {open && (
        <div class="row-body">
          <Markdown text={entry.text} live={live} />
        </div>
      )}
    </div>
  );
}

const PromptBubble = memo(({ turn, editing }: { turn: Turn; editing: boolean }) => {
  const [long, setLong] = useState(false);
  const [restoring, setRestoring] = useState(false);
  if (editing) return <EditPrompt turn={turn} />;
  const text = promptText(turn.prompt);
  const isLong = text.length > 1200 || text.split('\n').length > 12;
  return (
    <div class={`prompt ${turn.status}`}>
      <h2 class="only-read">{l10n.t('You')}</h2>
      <div class={isLong && !long ? 'prompt-text clamped' : 'prompt-text'}>
        <Blocks prompt={turn.prompt} />
      </div>
      {isLong && (
        <Button kind="link" onPress={() => setLong(!long)}>
          {long ? l10n.t('Show less') : l10n.t('Show all')}
        </Button>
      )}
      {restoring && <RestoreQuestion turn={turn} onClose={() => setRestoring(false)} />}
      {turn.status === 'sending' && <span class="meta prompt-state">{l10n.t('Sending')}</span>}
      {turn.status === 'refused' && (
        <span class="prompt-state error-text">
          {turn.refusal}{' '}
          <Button
            kind="link"
            onPress={() => {
              // The text may be back in the composer: do not send it twice.
              if (draft.value.text.trim() === text) setDraft(EMPTY_DRAFT);
              resend(turn.prompt);
            }}
          >
            {l10n.t('Retry')}
          </Button>
        </span>
      )}
      {turn.status !== 'sending' && turn.status !== 'refused' && (
        <Toolbar className="prompt-actions" label={l10n.t('Prompt actions')}>
          <IconButton icon="copy" label={l10n.t('Copy prompt')} onPress={() => post({ type: 'copy', text })} />
          <IconButton icon="edit" label={l10n.t('Edit and resend')} onPress={() => toggle(`${turn.key}/edit`, true)} />
          {turn.status !== 'running' && turn.id !== '' && (
            <IconButton icon="discard" label={l10n.t('Restore to here')} onPress={() => setRestoring(true)} />
          )}
        </Toolbar>
      )}
    </div>
  );
});

function RestoreQuestion({ turn, onClose }: { turn: Turn; onClose: () => void }) {
  return (
    <div class="restore-question">
      <p class="meta">
        {l10n.t('Files and conversation go back to before this prompt. This session keeps the later turns.')}
      </p>
      <div class="card-buttons">
        <Button
          kind="primary"
          onPress={() => {
            onClose();
            restore(turn);
          }}
        >
          {l10n.t('Restore')}
        </Button>
        <Button kind="link" onPress={onClose}>
          {l10n.t('Cancel')}
        </Button>
      </div>
    </div>
  );
}

function EditPrompt({ turn }: { turn: Turn }) {
  const laterTurns = turnsAfter(turn);
  const later = laterTurns.map((one) => one.id);
  const box = useRef<HTMLTextAreaElement>(null);
  const [asking, setAsking] = useState(false);
  const close = () => toggle(`${turn.key}/edit`, false);
  // Before the box is painted: a later effect would move the caret under what the user already types.
  useLayoutEffect(() => {
    box.current?.focus();
    box.current?.setSelectionRange(box.current.value.length, box.current.value.length);
  }, []);
  const changed = [turn, ...laterTurns].some(({ files }) => files.length > 0);
  const send = (files: 'keep' | 'undo') => {
    const text = box.current?.value.trim() ?? '';
    const rest = turn.prompt.filter((block, index) => !(block.type === 'text' && index === 0));
    const prompt: ContentBlock[] = [...promptOf({ text, chips: [], caret: 0 }), ...rest];
    if (prompt.length === 0) return;
    close();
    post({ type: 'resend', turnId: turn.id, promptId: newId('p'), prompt, laterTurns: later, files });
  };
  return (
    <div class="prompt editing">
      <textarea
        ref={box}
        aria-label={l10n.t('Edit prompt')}
        defaultValue={promptText(turn.prompt)}
        rows={Math.min(10, promptText(turn.prompt).split('\n').length + 1)}
        onKeyDown={(event) => {
          if (isComposing(event)) return;
          if (event.key === 'Escape') {
            event.stopPropagation();
            close();
          } else if (event.key === 'Enter' && !event.shiftKey) {
            event.preventDefault();
            if (changed) setAsking(true);
            else send('keep');
          }
        }}
      />
      <p class="meta">
        {later.length > 1
          ? l10n.t(
              'Continues in a copy of this session without the {0} later turns. This session keeps them.',
              later.length,
            )
          : later.length === 1
            ? l10n.t('Continues in a copy of this session without the later turn. This session keeps it.')
            : l10n.t('Continues in a copy of this session.')}
      </p>
      <div class="card-buttons">
        {asking ? (
          <>
            <Button kind="primary" onPress={() => send('keep')}>
              {l10n.t('Keep file changes')}
            </Button>
            <Button onPress={() => send('undo')}>{l10n.t('Undo file changes')}</Button>
          </>
        ) : (
          <Button kind="primary" onPress={() => (changed ? setAsking(true) : send('keep'))}>
            {l10n.t('Send')}
          </Button>
        )}
        <Button kind="link" onPress={close}>
          {l10n.t('Cancel')}
        </Button>
      </div>
    </div>
  );
}

export function Blocks({ prompt }: { prompt: readonly ContentBlock[] }) {
  return (
    <>
      {prompt.map((block, index) => (
        <PromptBlock key={index} block={block} first={index === 0} />
      ))}
    </>
  );
}

function PromptBlock({ block, first }: { block: ContentBlock; first: boolean }) {
  switch (block.type) {
    case 'text':
      if (first) {
        return (
          <span class="prompt-words" dir="auto">
            {block.text}
          </span>
        );
      }
      return (
        <details class="chip-text" aria-label={l10n.t('Pasted text')}>
          <summary>
            <Icon name="paste" /> {l10n.t('{0} lines pasted', block.text.split('\n').length)}
          </summary>
          <pre>{block.text.slice(0, 20_000)}</pre>
        </details>
      );
    case 'resource': {
      const from = block.range?.start.line;
      const lines = block.range ? `:${lineRange(block.range)}` : '';
      return (
        <button
          type="button"
          class="chip"
          onClick={() => post({ type: 'openFile', uri: block.uri, ...(from !== undefined && { line: from }) })}
        >
          <Icon name={block.range ? 'selection' : 'file'} />
          {basename(block.uri)}
          {lines}
        </button>
      );
    }
    case 'image':
      return <img class="thumb" alt={l10n.t('Attached image')} src={`data:${block.mimeType};base64,${block.data}`} />;
    case 'diagnostic':
      return (
        <button
          type="button"
          class="chip"
          onClick={() => post({ type: 'openFile', uri: block.uri, line: block.diagnostic.range.start.line })}
        >
          <Icon name="problem" />
          {block.diagnostic.message.slice(0, 80)}
        </button>
      );
    case 'context':
      return null; // not shown: the server leaves it out of the transcript
    default:
      return block satisfies never;
  }
}
