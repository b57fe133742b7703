/** The list of completions above the composer. The focus stays in the text box. */

import { useEffect, useRef } from 'preact/hooks';
import type { Command, Mention } from '../../src/protocol.gen.ts';
import { Icon } from '../common/controls.tsx';
import type { IconName } from '../common/icons.ts';
import { l10n } from '../common/l10n.ts';
import type { Trigger } from './completion.ts';

interface Props {
  trigger: Trigger;
  offers: readonly (Mention | Command)[];
  chosen: number;
  onTake: (offer: Mention | Command) => void;
  onPoint: (index: number) => void;
}

const ICONS: Record<Mention['kind'], IconName> = {
  file: 'file',
  folder: 'folder',
  buffer: 'edit',
  symbol: 'symbol',
  resource: 'book',
  context: 'mention',
  session: 'history',
  url: 'globe',
};

export function CompletionList({ trigger, offers, chosen, onTake, onPoint }: Props) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  return (
    <div
      class="popover"
      id="offers"
      role="listbox"
      aria-label={trigger.kind === 'mention' ? l10n.t('Files and symbols') : l10n.t('Commands')}
      ref={list}
    >
      {offers.length === 0 && <div class="offer none">{l10n.t('No matches for "{0}".', trigger.query)}</div>}
      {offers.map((offer, index) => (
        // The focus stays in the text box; aria-activedescendant points to the option.
        // biome-ignore lint/a11y: see above
        <div
          key={'uri' in offer ? `${offer.kind}${offer.uri}${offer.label}` : offer.name}
          id={`offer-${index}`}
          class={index === chosen ? 'offer chosen' : 'offer'}
          role="option"
          aria-selected={index === chosen}
          // A list that opens under a resting pointer must not change the selection.
          onMouseMove={(event) => {
            if (event.movementX !== 0 || event.movementY !== 0) onPoint(index);
          }}
          onMouseDown={(event) => {
            event.preventDefault();
            onTake(offer);
          }}
        >
          {'uri' in offer ? <Icon name={ICONS[offer.kind]} /> : <span class="slash">/</span>}
          <span class="offer-label">
            <Matched text={'uri' in offer ? shortLabel(offer) : offer.name} query={trigger.query} />
          </span>
          {'uri' in offer ? (
            <span class="meta offer-detail">{offer.detail ?? folderOf(offer.label)}</span>
          ) : (
            <span class="meta offer-detail">
              {offer.source !== 'built-in' && `${l10n.t('yours')} · `}
              {offer.argumentHint && `${offer.argumentHint} · `}
              {offer.description}
            </span>
          )}
        </div>
      ))}
    </div>
  );
}

/** Highlights the typed text in a completion. */
function Matched({ text, query }: { text: string; query: string }) {
  const typed = query.slice(query.lastIndexOf('/') + 1).toLowerCase();
  const at = typed === '' ? -1 : text.toLowerCase().indexOf(typed);
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <b>{text.slice(at, at + typed.length)}</b>
      {text.slice(at + typed.length)}
    </>
  );
}

/** The name of a file; its folder is shown after it. */
function shortLabel(mention: Mention): string {
  return mention.kind === 'symbol' || mention.kind === 'session' || mention.kind === 'url'
    ? mention.label
    : mention.label.replace(/\/$/, '').split('/').at(-1) || mention.label;
}

function folderOf(label: string): string {
  const path = label.replace(/\/$/, '');
  return path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '';
}
