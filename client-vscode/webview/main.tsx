/** Starts the view: messages from the host go to the reducer, and the few that are no state to their place. */

import { options, render } from 'preact';
import { App } from './app.tsx';
import { tellVisible } from './approvals/cardVisibility.ts';
import { composerFocus, leftAt, mentions, wanted } from './common/focus.ts';
import { l10n } from './common/l10n.ts';
import {
  addChips,
  addToDraft,
  draft,
  editDraft,
  isByHand,
  isEmpty,
  promptOf,
  saveDraft,
  setDraft,
  settleDraft,
} from './composer/draft.ts';
import { EMPTY_DRAFT, type ToView } from './messages.ts';
import { resend, send } from './state/actions.ts';
import { dispatch, post, state } from './state/store.ts';

// Once a frame, however fast the updates come.
options.debounceRendering = (paint) => requestAnimationFrame(paint);

const MOST_MENTIONS = 200;
/** a session, or none, was opened */
let opened = false;

addEventListener('message', (event: MessageEvent<ToView>) => {
  const message = event.data;
  switch (message.type) {
    case 'hello':
      l10n.load(message.words);
      break;
    case 'opening':
      settleDraft();
      // What was written before any session was there, or in this very one, is newer than what the host has.
      if (!isByHand() || (opened && message.sessionId !== (state.value.session?.id ?? null))) setDraft(message.draft);
      opened = true;
      break;
    case 'loaded':
      opened = true;
      if (!isByHand() && message.draft.text !== draft.value.text) setDraft(message.draft);
      leftAt.value = message.draft.scroll;
      break;
    case 'sendFailed':
      if (isEmpty(draft.value)) setDraft(message.draft);
      break;
    case 'mentions': {
      const known = mentions.value.size > MOST_MENTIONS ? new Map() : new Map(mentions.value);
      mentions.value = known.set(message.query, message.mentions);
      break;
    }
    case 'attach':
      addChips(message.chips);
      break;
    case 'compose':
      compose(message);
      break;
    case 'retry':
      resend(message.prompt);
      break;
    case 'focus':
      composerFocus.value += 1;
      break;
    case 'reveal':
      wanted.value = message.approvalId;
      break;
    default:
      break;
  }
  dispatch(message);
  if (message.type === 'opening' && isByHand()) editDraft({});
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

document.addEventListener('visibilitychange', () => {
  tellVisible();
  if (document.visibilityState === 'hidden') saveDraft();
});
document.addEventListener('securitypolicyviolation', (event) => {
  post({ type: 'problem', what: `CSP: ${event.violatedDirective} ${event.blockedURI}` });
});

const root = document.getElementById('root');
if (root) render(<App />, root);
setDraft(EMPTY_DRAFT);
post({ type: 'ready' });
