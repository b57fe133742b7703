/** Starts the view, and passes the host's messages to the reducer, the composer and the transcript. */

import { options, render } from 'preact';
import { App } from './app.tsx';
import { reportCards } from './approvals/cardVisibility.ts';
import { composerFocus, mentions, requestedCard, savedPosition } from './common/focus.ts';
import { l10n } from './common/l10n.ts';
import { watchTheme } from './common/theme.ts';
import {
  addChips,
  addToDraft,
  draft,
  editDraft,
  flushDraft,
  isEdited,
  isEmpty,
  promptOf,
  saveDraft,
  setDraft,
} from './composer/draft.ts';
import { foundMentions } from './composer/mentionLayer.tsx';
import { isDrawing } from './markdown/diagram.tsx';
import { EMPTY_DRAFT, type ToView } from './messages.ts';
import { resend, send } from './state/actions.ts';
import { dispatch, post, state } from './state/store.ts';
import { openFind } from './transcript/find.tsx';

/** The longest pause between two paints, in ms. */
const MAX_PAUSE = 250;

// Renders at most once per frame. After a slow paint the next one waits as long as that one took, so that a busy
// machine renders more updates at once instead of falling behind.
let rest = 0;
options.debounceRendering = (paint) => {
  const timed = () => {
    const began = performance.now();
    paint();
    rest = performance.now() - began;
  };
  if (rest < 16) requestAnimationFrame(timed);
  else setTimeout(() => requestAnimationFrame(timed), Math.min(rest, MAX_PAUSE));
};

const MAX_CACHED_QUERIES = 200;
/** whether the host has opened a session or an empty chat */
let opened = false;

addEventListener('message', (event: MessageEvent<ToView>) => {
  const message = event.data;
  switch (message.type) {
    case 'hello':
      l10n.load(message.words);
      break;
    case 'opening':
      flushDraft();
      // Text that the user typed before a session was opened, or in this session, is newer than the stored draft.
      if (!isEdited() || (opened && message.sessionId !== (state.value.session?.id ?? null))) setDraft(message.draft);
      opened = true;
      break;
    case 'loaded':
      opened = true;
      if (!isEdited() && message.draft.text !== draft.value.text) setDraft(message.draft);
      savedPosition.value = message.draft.scroll;
      break;
    case 'sendFailed':
      if (isEmpty(draft.value)) setDraft(message.draft);
      break;
    case 'mentions': {
      const cache = mentions.value.size > MAX_CACHED_QUERIES ? new Map() : new Map(mentions.value);
      mentions.value = cache.set(message.query, message.mentions);
      break;
    }
    case 'foundMentions':
      foundMentions.value = message;
      break;
    case 'attach':
      addChips(message.chips);
      break;
    case 'compose':
      compose(message);
      break;
    case 'retry':
      resend(message.prompt);
      break;
    case 'find':
      openFind();
      break;
    case 'focus':
      composerFocus.value += 1;
      break;
    case 'reveal':
      requestedCard.value = message.approvalId;
      break;
    default:
      break;
  }
  dispatch(message);
  if (message.type === 'opening' && isEdited()) editDraft({});
});

function compose(message: Extract<ToView, { type: 'compose' }>): void {
  const { text, chips } = message;
  if (message.send) {
    const next = { text, chips, caret: text.length };
    send(promptOf(next), next, 'queue');
    return;
  }
  addToDraft(text, chips);
  composerFocus.value += 1;
}

document.addEventListener('keydown', (event) => {
  const isFind = event.key === 'f' && (state.value.mac ? event.metaKey : event.ctrlKey);
  if (!isFind || event.shiftKey || event.altKey) return;
  event.preventDefault();
  openFind();
});

document.addEventListener('visibilitychange', () => {
  reportCards();
  if (document.visibilityState === 'hidden') saveDraft();
});
document.addEventListener('securitypolicyviolation', (event) => {
  if (isDrawing() && event.violatedDirective.startsWith('style-src') && event.blockedURI === 'inline') return;
  post({ type: 'problem', what: `CSP: ${event.violatedDirective} ${event.blockedURI}` });
});

watchTheme();
const root = document.getElementById('root');
if (root) render(<App />, root);
setDraft(EMPTY_DRAFT);
post({ type: 'ready' });
