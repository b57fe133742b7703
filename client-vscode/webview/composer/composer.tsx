/** The composer: text box, attachments, completions, mode and model pickers, and the send button. */

import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Command, Mention } from '../../src/protocol.gen.ts';
import { isComposing } from '../approvals/approvalCard.tsx';
import { Button, Icon, IconButton } from '../common/controls.tsx';
import { composerFocus, mentions, scroller, whenFocused } from '../common/focus.ts';
import { count, modelName, modeTitle, promptText } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { EMPTY_DRAFT, type Looking, type ViewCommand } from '../messages.ts';
import { send, stop } from '../state/actions.ts';
import { acceptsPrompts, currentMode, isBusy, type State } from '../state/state.ts';
import { post } from '../state/store.ts';
import { accept as applyCompletion, matchCommands, matchMentions, type Trigger, triggerAt } from './completion.ts';
import { CompletionList } from './completionList.tsx';
import {
  addChips,
  draft,
  draftResets,
  editDraft,
  isEmpty,
  promptOf,
  removeChip,
  setDraft,
  shownChips,
} from './draft.ts';
import { MentionLayer } from './mentionLayer.tsx';
import { dropChips, pasteChips } from './pasteAndDrop.ts';

/** A second Esc within this time stops the turn, in ms. */
const DOUBLE_ESC_MS = 1500;

export function Composer({ state }: { state: State }) {
  const box = useRef<HTMLTextAreaElement>(null);
  // Signals, because a key may come before the list that the key before it opened is rendered.
  const trigger = useSignal<Trigger | null>(null);
  const chosen = useSignal(0);
  const [escaping, setEscaping] = useState(false);
  const [dropping, setDropping] = useState(false);
  const lastEscape = useRef(-DOUBLE_ESC_MS);
  const recalled = useRef(-1);
  const busy = isBusy(state);

  useLayoutEffect(() => {
    if (!box.current) return;
    box.current.value = draft.value.text;
    box.current.setSelectionRange(draft.value.caret, draft.value.caret);
    resize(box.current);
  }, [draftResets.value]);
  useEffect(
    () => (composerFocus.value > 0 ? whenFocused(() => box.current?.focus()) : undefined),
    [composerFocus.value],
  );

  const findOffers = (at: Trigger | null): readonly (Mention | Command)[] =>
    at === null
      ? []
      : at.kind === 'command'
        ? matchCommands(state.commands, at.query)
        : matchMentions(mentions.value, at.query);
  const offers = findOffers(trigger.value);
  const shown = offers.length > 0 || trigger.value?.kind === 'mention' ? trigger.value : null;

  const updateTrigger = (node: HTMLTextAreaElement) => {
    const next = triggerAt(node.value, node.selectionStart);
    const last = trigger.value;
    if (next?.kind === 'mention' && next.query !== last?.query) post({ type: 'mention', query: next.query });
    if (next?.kind === 'command' && last?.kind !== 'command') post({ type: 'loadCommands' });
    if (next?.query !== last?.query || next?.kind !== last?.kind) chosen.value = 0;
    trigger.value = next;
  };

  const accept = (offer: Mention | Command) => {
    const node = box.current;
    if (!node || !trigger.value) return;
    const insert = 'insert' in offer ? offer.insert : offer.name;
    const next = applyCompletion(node.value, node.selectionStart, trigger.value, insert);
    node.value = next.text;
    node.setSelectionRange(next.caret, next.caret);
    editDraft(next);
    // The server finds mentioned files by their path. The range of a symbol is known only here.
    if ('uri' in offer && offer.kind === 'symbol' && offer.range) {
      addChips([
        {
          id: `@${offer.insert}`,
          label: offer.label,
          icon: 'symbol',
          block: { type: 'resource', uri: offer.uri, range: offer.range },
        },
      ]);
    }
    trigger.value = null;
    resize(node);
    node.focus();
  };

  const submit = (whenBusy: 'queue' | 'steer') => {
    const now = draft.value;
    if (isEmpty(now) || !acceptsPrompts(state)) return;
    trigger.value = null;
    recalled.current = -1;
    send(promptOf(now), now, whenBusy);
    setDraft(EMPTY_DRAFT);
    scroller.follow();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    const node = event.currentTarget as HTMLTextAreaElement;
    if (handleCompletionKey(event)) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      submit(event.ctrlKey || event.metaKey ? 'steer' : 'queue');
    } else if (event.key === 'Escape') {
      onEscape(event);
    } else if (
      event.key === 'ArrowUp' &&
      !event.altKey &&
      (node.value === '' || recalled.current >= 0) &&
      node.selectionStart === node.selectionEnd
    ) {
      recall(event, 1);
    } else if (event.key === 'ArrowDown' && recalled.current >= 0) {
      recall(event, -1);
    }
  };

  const handleCompletionKey = (event: KeyboardEvent): boolean => {
    const offers = findOffers(trigger.value);
    if (offers.length === 0 && trigger.value?.kind !== 'mention') return false;
    if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      trigger.value = null;
      return true;
    }
    if (offers.length === 0) return false;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      chosen.value = (chosen.value + (event.key === 'ArrowDown' ? 1 : offers.length - 1)) % offers.length;
      return true;
    }
    const offer = offers[chosen.value];
    if ((event.key === 'Enter' || event.key === 'Tab') && offer && !event.shiftKey) {
      event.preventDefault();
      accept(offer);
      return true;
    }
    return false;
  };

  const onEscape = (event: KeyboardEvent) => {
    if (!busy) return;
    event.preventDefault();
    if (performance.now() - lastEscape.current < DOUBLE_ESC_MS) {
      lastEscape.current = -DOUBLE_ESC_MS;
      setEscaping(false);
      stop();
      return;
    }
    lastEscape.current = performance.now();
    setEscaping(true);
    setTimeout(() => setEscaping(false), DOUBLE_ESC_MS);
  };

  /** The Up key in an empty text box recalls earlier prompts, newest first. */
  const recall = (event: KeyboardEvent, by: number) => {
    const prompts = state.turns
      .map((turn) => promptText(turn.prompt))
      .filter((text) => text !== '')
      .reverse();
    const next = recalled.current + by;
    if (next >= prompts.length) return;
    event.preventDefault();
    recalled.current = next;
    const text = prompts[next] ?? '';
    setDraft({ ...draft.value, text, caret: text.length });
    editDraft({});
  };

  return (
    <section
      aria-label={l10n.t('Prompt')}
      class={dropping ? 'composer dropping' : 'composer'}
      onDragOver={(event) => {
        event.preventDefault();
        setDropping(true);
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={(event) => {
        event.preventDefault();
        setDropping(false);
        void dropChips(event);
      }}
    >
      {dropping && <div class="drop-hint">{l10n.t('Drop to attach. From the Explorer, hold Shift.')}</div>}
      {shown && (
        <CompletionList
          trigger={shown}
          offers={offers}
          chosen={chosen.value}
          onTake={accept}
          onPoint={(index) => {
            chosen.value = index;
          }}
        />
      )}
      <Hint state={state} />
      <div class="composer-box">
        <Chips looking={state.looking} />
        <div class="prompt-area">
          <MentionLayer text={draft.value.text} box={box} />
          <textarea
            ref={box}
            id="prompt"
            rows={1}
            dir="auto"
            aria-label={l10n.t('Ask, or describe a change')}
            placeholder={
              busy
                ? l10n.t('Queue a prompt ({0} to steer)', state.mac ? '⌘⏎' : 'Ctrl+Enter')
                : l10n.t('Ask, or describe a change')
            }
            aria-describedby="mention-costs"
            aria-haspopup="listbox"
            aria-controls="offers"
            aria-activedescendant={offers.length > 0 ? `offer-${chosen.value}` : undefined}
            aria-autocomplete="list"
            onInput={(event) => {
              const node = event.currentTarget;
              recalled.current = -1;
              editDraft({ text: node.value, caret: node.selectionStart });
              resize(node);
              updateTrigger(node);
            }}
            onKeyDown={onKeyDown}
            onSelect={(event) => updateTrigger(event.currentTarget)}
            onBlur={() => {
              trigger.value = null;
            }}
            onPaste={(event) => void pasteChips(event)}
          />
        </div>
        <div class="composer-bar">
          <IconButton
            icon="mention"
            label={l10n.t('Mention a file')}
            onPress={() => typeCharacter(box.current, '@', updateTrigger)}
          />
          <IconButton
            icon="attach"
            label={l10n.t('Attach…')}
            onPress={() => post({ type: 'command', command: 'attachPick' })}
          />
          <Pickers state={state} />
          <span class="spacer" />
          <ContextMeter state={state} />
          <MainButton state={state} onSend={() => submit('queue')} empty={isEmpty(draft.value)} />
        </div>
      </div>
      <div class="composer-note" role="status">
        {escaping ? l10n.t('Esc again to stop') : <ImageWarning state={state} />}
      </div>
    </section>
  );
}

/** Shows that the workspace is not trusted or that no model is connected, and how to change that. */
function Hint({ state }: { state: State }) {
  if (!state.trusted) {
    return (
      <div class="composer-hint">
        <Icon name="shield" />
        <span>{l10n.t('Restricted Mode: Pilotfish can read files but cannot change or run anything.')}</span>
        <Button onPress={() => post({ type: 'command', command: 'trust' })}>{l10n.t('Trust…')}</Button>
      </div>
    );
  }
  // Before the first turn, the welcome page shows this.
  if (!state.model?.demo || state.turns.length === 0) return null;
  return (
    <div class="composer-hint">
      <Icon name="info" />
      <span>{l10n.t('No model is connected. A scripted guide is answering.')}</span>
      <Button onPress={() => post({ type: 'command', command: 'selectModel' })}>{l10n.t('Connect a model')}</Button>
    </div>
  );
}

function ImageWarning({ state }: { state: State }) {
  const images = draft.value.chips.some((chip) => chip.block.type === 'image');
  if (!images || state.model?.seesImages !== false) return null;
  return (
    <>
      {l10n.t('{0} cannot see images.', state.model.label)}{' '}
      <Button kind="link" onPress={() => post({ type: 'command', command: 'selectModel' })}>
        {l10n.t('Switch model')}
      </Button>
    </>
  );
}

function Chips({ looking }: { looking: Looking | null }) {
  const chips = shownChips(draft.value);
  if (chips.length === 0 && !looking) return null;
  return (
    <ul class="chips" aria-label={l10n.t('Attached')}>
      {looking && (
        <li>
          <ContextChip looking={looking} />
        </li>
      )}
      {chips.map((chip) => (
        <li key={chip.id} class="chip" title={chip.detail ?? chip.label}>
          {chip.block.type === 'image' ? (
            <img class="thumb small" alt="" src={`data:${chip.block.mimeType};base64,${chip.block.data}`} />
          ) : (
            <Icon name={chip.icon} />
          )}
          <span class="chip-label">{chip.label}</span>
          <IconButton icon="close" label={l10n.t('Remove {0}', chip.label)} onPress={() => removeChip(chip.id)} />
        </li>
      ))}
    </ul>
  );
}

/** The file that the user looks at. It goes with the prompt; a click drops it, another one brings it back. */
function ContextChip({ looking: { name, path, lines, dropped } }: { looking: Looking }) {
  const place = lines === undefined ? path : l10n.t('{0}, lines {1}', path, lines);
  const title = dropped
    ? l10n.t('Not sent: {0}. Click to send what you look at with your prompts.', place)
    : l10n.t('Sent with your prompt: {0}, its problems, and the state of git. Click to leave it out.', place);
  return (
    <button
      type="button"
      class={dropped ? 'chip context dropped' : 'chip context'}
      aria-pressed={!dropped}
      aria-label={l10n.t('What you look at: {0}', place)}
      title={title}
      onClick={() => post({ type: 'dropContext', dropped: !dropped })}
    >
      <Icon name={dropped ? 'circle-slash' : 'eye'} />
      <span class="chip-label">{lines === undefined ? name : `${name}:${lines}`}</span>
    </button>
  );
}

/** The mode and model pickers; a narrow view shows one picker for both (see the CSS). */
function Pickers({ state }: { state: State }) {
  const model = state.session?.model ?? state.model?.current;
  // The model is unknown until the server has answered.
  const label = model ? modelName(model) : '…';
  const mode = modeTitle(currentMode(state));
  const modelTitle = model ? l10n.t('Model: {0}', model) : l10n.t('Model');
  return (
    <span class="pickers">
      <Picker name="both" text={`${mode} · ${label}`} title={`${mode}. ${modelTitle}`} command="configure" />
      <Picker name="mode" text={mode} title={l10n.t('Mode: what needs your approval')} command="selectMode" />
      <Picker name="model" text={label} title={modelTitle} command="selectModel" />
    </span>
  );
}

function Picker({ name, text, title, command }: { name: string; text: string; title: string; command: ViewCommand }) {
  return (
    <button type="button" class={`picker ${name}`} title={title} onClick={() => post({ type: 'command', command })}>
      <span>{text}</span>
      <Icon name="chevron-down" />
    </button>
  );
}

function ContextMeter({ state }: { state: State }) {
  const { context } = state;
  if (!context || context.used === 0) return null;
  if (context.window === undefined) {
    const label = l10n.t('Context: {0} tokens', count(context.used));
    return (
      <span class="meta meter-text" title={label} role="img" aria-label={label}>
        {l10n.t('{0} tokens', count(context.used))}
      </span>
    );
  }
  const part = Math.min(context.used / context.window, 1);
  const label = l10n.t('Context: {0} of {1} tokens', count(context.used), count(context.window));
  return (
    <span class={part > 0.85 ? 'meter full' : 'meter'} role="img" aria-label={label} title={label}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        <circle class="meter-rest" cx="8" cy="8" r="6" />
        <circle
          class="meter-used"
          cx="8"
          cy="8"
          r="6"
          pathLength="100"
          stroke-dasharray={`${Math.max(part * 100, 2)} 100`}
        />
      </svg>
      <span class="meter-label">{l10n.t('{0}% context', Math.round(part * 100))}</span>
    </span>
  );
}

function MainButton({ state, onSend, empty }: { state: State; onSend: () => void; empty: boolean }) {
  const busy = isBusy(state);
  const stopping = state.stopping !== null;
  const stopButton = busy && (
    <button
      type="button"
      class={empty ? 'main-button stop' : 'main-button stop beside'}
      disabled={stopping}
      aria-label={stopping ? l10n.t('Stopping…') : l10n.t('Stop')}
      title={l10n.t('Stop (Esc Esc)')}
      onClick={stop}
    >
      <Icon name="debug-stop" />
      <span class="main-label">{stopping ? l10n.t('Stopping…') : l10n.t('Stop')}</span>
    </button>
  );
  if (stopButton && empty) return stopButton;
  const label = busy ? l10n.t('Queue') : l10n.t('Send');
  return (
    <>
      {stopButton}
      <button
        type="button"
        class="main-button"
        disabled={empty || !acceptsPrompts(state)}
        aria-label={label}
        title={busy ? l10n.t('Queue (Enter)') : l10n.t('Send (Enter)')}
        onClick={onSend}
      >
        <Icon name={busy ? 'history' : 'send'} />
        <span class="main-label">{label}</span>
      </button>
    </>
  );
}

function typeCharacter(
  node: HTMLTextAreaElement | null,
  character: string,
  onTyped: (node: HTMLTextAreaElement) => void,
): void {
  if (!node) return;
  node.focus();
  const before = node.value.slice(0, node.selectionStart);
  const space = before === '' || /\s$/.test(before) ? '' : ' ';
  node.setRangeText(space + character, node.selectionStart, node.selectionEnd, 'end');
  editDraft({ text: node.value, caret: node.selectionStart });
  onTyped(node);
}

function resize(node: HTMLTextAreaElement): void {
  node.style.height = 'auto';
  node.style.height = `${Math.min(node.scrollHeight, Math.max(window.innerHeight * 0.4, 72))}px`;
}
