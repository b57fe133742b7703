/** The text of the composer in pieces, mentions apart, and what a mention adds to the prompt in words. */

import type { MentionInText } from '../../src/protocol.gen.ts';
import { count } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';

const NAME = /[\w./~#:-]/;

export interface Piece {
  text: string;
  mention?: MentionInText;
}

/** The text in pieces. Mentions that were found in an earlier text count where it is still the same. */
export function piecesOf(text: string, foundIn: string, mentions: readonly MentionInText[]): readonly Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const mention of mentions) {
    if (foundIn.slice(0, mention.end) !== text.slice(0, mention.end)) break;
    const next = text[mention.end] ?? ' ';
    if (next !== foundIn[mention.end] && NAME.test(next)) break; // more letters make another name
    pieces.push({ text: text.slice(at, mention.start) }, { text: text.slice(mention.start, mention.end), mention });
    at = mention.end;
  }
  // The layer is as high as the text box only if a last empty line has something in it.
  return [...pieces, { text: `${text.slice(at)}\u200b` }];
}

/** "about 1,200 tokens", or why the mention is not attached. */
export function costOf({ tokens, problem }: MentionInText): string {
  if (problem) return l10n.t('not attached: {0}', problem);
  return tokens === undefined
    ? l10n.t('its size is known when the prompt is sent')
    : l10n.t('about {0} tokens', count(tokens));
}
