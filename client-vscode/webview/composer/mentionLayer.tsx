/**
 * Marks the mentions in the text box, and shows on hover what each of them adds to the prompt.
 *
 * The marks are in a layer behind the text box that breaks lines at the same places. The text itself stays in the text
 * box, so that selection, input methods and screen readers work as without marks.
 */

import { signal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { MentionInText } from '../../src/protocol.gen.ts';
import { post } from '../state/store.ts';
import { costOf, piecesOf } from './mentionPieces.ts';

/** The mentions that the server has found, with the text that they are in. */
export const foundMentions = signal<{ text: string; mentions: readonly MentionInText[] }>({ text: '', mentions: [] });

/** The server is asked when the user pauses, in ms. */
const PAUSE_MS = 200;

interface Props {
  text: string;
  box: RefObject<HTMLTextAreaElement | null>;
}

export function MentionLayer({ text, box }: Props) {
  const layer = useRef<HTMLDivElement>(null);
  const found = foundMentions.value;
  useEffect(() => {
    if (!text.includes('@') || foundMentions.peek().text === text) return;
    const timer = setTimeout(() => post({ type: 'findMentions', text }), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const pieces = piecesOf(text, found.text, found.mentions);
  const mentions = pieces.flatMap(({ mention }) => (mention ? [mention] : []));
  useLayoutEffect(() => {
    const node = box.current;
    if (!node || !layer.current) return;
    const follow = () => {
      // The scrollbar takes width from the text, and the layer has none.
      const scrollbar = node.offsetWidth - node.clientWidth;
      if (layer.current) layer.current.style.borderRightWidth = `${scrollbar}px`;
      if (layer.current) layer.current.scrollTop = node.scrollTop;
    };
    const point = (event: MouseEvent) => {
      node.title = titleAt(layer.current, mentions, event);
    };
    follow();
    node.addEventListener('scroll', follow);
    node.addEventListener('mousemove', point);
    return () => {
      node.removeEventListener('scroll', follow);
      node.removeEventListener('mousemove', point);
      node.title = '';
    };
  }, [text, found]);
  return (
    <>
      <div class="mention-layer" ref={layer} aria-hidden="true">
        {pieces.map((piece, index) =>
          piece.mention ? (
            <mark key={index} class={piece.mention.problem ? 'mention problem' : 'mention'}>
              {piece.text}
            </mark>
          ) : (
            piece.text
          ),
        )}
      </div>
      <div id="mention-costs" class="only-read">
        {mentions.map((mention) => `@${mention.name}: ${costOf(mention)}`).join('. ')}
      </div>
    </>
  );
}

function titleAt(layer: HTMLElement | null, mentions: readonly MentionInText[], event: MouseEvent): string {
  const marks = [...(layer?.querySelectorAll('mark') ?? [])];
  const index = marks.findIndex((mark) =>
    [...mark.getClientRects()].some(
      (area) =>
        area.left <= event.clientX &&
        event.clientX <= area.right &&
        area.top <= event.clientY &&
        event.clientY <= area.bottom,
    ),
  );
  const mention = mentions[index];
  return mention ? `@${mention.name}: ${costOf(mention)}` : '';
}
