/** Finds text in the conversation. VS Code has its own find only for web views in editors. */

import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { IconButton } from '../common/controls.tsx';
import { composerFocus, scroller } from '../common/focus.ts';
import { l10n } from '../common/l10n.ts';

/** Whether the box is open. Meanwhile the transcript mounts every row and loads the older ones. */
export const findOpen = signal(false);

export function openFind(): void {
  findOpen.value = true;
  document.querySelector<HTMLInputElement>('.find input')?.select();
}

/** More matches are not marked. */
const MAX_MATCHES = 1000;
/** How long after a change of the transcript it is searched again, in ms. */
const SEARCH_DELAY_MS = 150;

export function FindBox() {
  const [query, setQuery] = useState('');
  const [matches, setMatches] = useState<readonly Range[]>([]);
  const [current, setCurrent] = useState(0);
  const input = useRef<HTMLInputElement>(null);

  // Before the box is painted: a later effect would select what the user already typed.
  useLayoutEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);

  // Searches now, and again when the transcript changes.
  useEffect(() => {
    const box = document.querySelector('.transcript');
    if (!box) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const search = () => {
      timer = undefined;
      setMatches(findText(box, query));
    };
    search();
    const observer = new MutationObserver(() => {
      timer ??= setTimeout(search, SEARCH_DELAY_MS);
    });
    observer.observe(box, { childList: true, characterData: true, subtree: true });
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [query]);

  const selected = matches[Math.min(current, matches.length - 1)];
  // With the paint that shows the count, so that the count and the marks agree.
  useLayoutEffect(() => {
    mark('find-match', matches);
    mark('find-current', selected ? [selected] : []);
    return () => {
      mark('find-match', []);
      mark('find-current', []);
    };
  }, [matches, selected]);

  const go = (step: number, from = current) => {
    if (matches.length === 0) return;
    const next = (from + step + matches.length) % matches.length;
    setCurrent(next);
    const match = matches[next];
    if (match) show(match);
  };
  const close = () => {
    findOpen.value = false;
    composerFocus.value += 1;
  };
  // The newest match is the nearest one: the conversation is usually scrolled to its end.
  useEffect(() => {
    if (query !== '') go(0, matches.length - 1);
  }, [query, matches.length > 0]);

  return (
    <search
      class="find"
      onKeyDown={(event) => {
        if (event.key === 'Escape') close();
        else if (event.key === 'Enter' && event.target === input.current) go(event.shiftKey ? -1 : 1);
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <input
        ref={input}
        type="text"
        spellcheck={false}
        aria-label={l10n.t('Find in the conversation')}
        placeholder={l10n.t('Find')}
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      <span class="meta" role="status">
        {query !== '' &&
          (matches.length === 0
            ? l10n.t('No results')
            : l10n.t('{0} of {1}', Math.min(current, matches.length - 1) + 1, matches.length))}
      </span>
      <IconButton icon="arrow-up" label={l10n.t('Previous match')} onPress={() => go(-1)} />
      <IconButton icon="arrow-down" label={l10n.t('Next match')} onPress={() => go(1)} />
      <IconButton icon="close" label={l10n.t('Close')} onPress={close} />
    </search>
  );
}

/** The places of the text in the rows, in order, whatever elements it is split into. */
function findText(box: Element, query: string): readonly Range[] {
  const wanted = query.toLowerCase();
  if (wanted.trim() === '') return [];
  const found: Range[] = [];
  for (const row of box.querySelectorAll('[data-row]')) {
    const nodes: { node: Node; at: number }[] = [];
    let text = '';
    const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement?.closest('.only-read, .icon, .katex-mathml')) continue;
      nodes.push({ node, at: text.length });
      text += (node.nodeValue ?? '').toLowerCase();
    }
    const place = (offset: number) => nodes.findLast(({ at }) => at <= offset);
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const start = place(at);
      const end = place(at + wanted.length - 1);
      if (!start || !end || found.length === MAX_MATCHES) return found;
      const range = document.createRange();
      range.setStart(start.node, Math.min(at - start.at, start.node.nodeValue?.length ?? 0));
      range.setEnd(end.node, Math.min(at + wanted.length - end.at, end.node.nodeValue?.length ?? 0));
      found.push(range);
    }
  }
  return found;
}

function mark(name: string, ranges: readonly Range[]): void {
  if (ranges.length === 0) CSS.highlights.delete(name);
  else CSS.highlights.set(name, new Highlight(...ranges));
}

function show(match: Range): void {
  const element = match.startContainer.parentElement;
  for (let node = element?.closest('details'); node; node = node.parentElement?.closest('details')) node.open = true;
  scroller.leave();
  element?.scrollIntoView({ block: 'center' });
}
