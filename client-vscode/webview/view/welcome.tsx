/** Before the first prompt, and while there is no server. */

import { carryOn } from '../actions.ts';
import { editDraft, setDraft } from '../draft.ts';
import { l10n } from '../l10n.ts';
import type { ServerState } from '../messages.ts';
import type { State } from '../state.ts';
import { dispatch, post } from '../store.ts';
import { composerFocus } from '../ui.ts';
import { ago } from '../words.ts';
import { Button, Icon } from './parts.tsx';

export function Welcome({ state }: { state: State }) {
  const suggest = (text: string) => {
    setDraft({ text, chips: [], caret: text.length });
    editDraft({});
    composerFocus.value += 1;
  };
  const unconnected = state.model !== null && (state.model.demo || !state.model.available);
  return (
    <main class="welcome" aria-label={l10n.t('Start')}>
      <Mark />
      <h1>{l10n.t('What should we change?')}</h1>
      {unconnected && (
        <div class="welcome-model">
          <p>
            {state.model?.demo
              ? l10n.t('No model connected. Until then a scripted demo answers.')
              : l10n.t('No model connected. {0}', state.model?.reason ?? '')}
          </p>
          <Button kind="primary" onPress={() => post({ type: 'command', command: 'selectModel' })}>
            {l10n.t('Connect a model')}
          </Button>
        </div>
      )}
      <h2>{l10n.t('Try')}</h2>
      <ul class="suggestions">
        <li>
          <Button kind="link" onPress={() => post({ type: 'command', command: 'explain' })}>
            {l10n.t('Explain this file')}
          </Button>
        </li>
        <li>
          <Button kind="link" onPress={() => suggest(l10n.t('Find and fix the failing test'))}>
            {l10n.t('Find and fix the failing test')}
          </Button>
        </li>
        <li>
          <Button kind="link" onPress={() => suggest(l10n.t('Review my uncommitted changes'))}>
            {l10n.t('Review my uncommitted changes')}
          </Button>
        </li>
      </ul>
      {state.recent.length > 0 && (
        <>
          <h2>{l10n.t('Recent')}</h2>
          <ul class="suggestions recent">
            {state.recent.slice(0, 5).map((session) => (
              <li key={session.id}>
                <button
                  type="button"
                  class="recent-session"
                  onClick={() => post({ type: 'openSession', sessionId: session.id })}
                >
                  <span class="recent-title">{session.title || l10n.t('Untitled')}</span>
                  <span class="meta">{ago(session.updatedAt, Date.now())}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </main>
  );
}

/** The pilotfish of media/pilotfish.svg. */
function Mark() {
  return (
    <svg
      class="welcome-mark"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.2"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d="M22 12c-2.4-4-6.6-5.8-10.6-5.4C8.8 6.9 7 8.4 6 10.2L2 7.2c.7 1.7 1 3.2 1 4.8s-.3 3.1-1 4.8l4-3c1 1.8 2.8 3.3 5.4 3.6C15.4 17.8 19.6 16 22 12z" />
      <path d="M9.6 7.4c-.8 3-.8 6.2 0 9.2M13.6 6.7c-.8 3.5-.8 7.1 0 10.6" />
      <circle cx="18" cy="11" r=".7" fill="currentColor" />
    </svg>
  );
}

export function Skeleton() {
  return (
    <div class="skeleton" role="status" aria-label={l10n.t('Opening the session')}>
      <div class="bone bubble" />
      <div class="bone" />
      <div class="bone short" />
      <div class="bone" />
    </div>
  );
}

/** Above everything: how the server is, when that is not simply well. */
export function ServerBanner({ server, crashed, cut }: { server: ServerState; crashed: boolean; cut: boolean }) {
  switch (server.status) {
    case 'ready':
      return crashed ? (
        <div class="banner warning" role="alert">
          <Icon name="warning" />
          <span>
            {cut ? l10n.t('Pilotfish restarted; the last step may be incomplete.') : l10n.t('Pilotfish restarted.')}
          </span>
          {cut && <Button onPress={carryOn}>{l10n.t('Continue')}</Button>}
          <Button kind="link" onPress={() => post({ type: 'command', command: 'showLog' })}>
            {l10n.t('Show log')}
          </Button>
          <Button kind="link" onPress={() => dispatch({ type: 'dismissCrash' })}>
            {l10n.t('Dismiss')}
          </Button>
        </div>
      ) : null;
    case 'starting':
      return (
        <div class="banner quiet" role="status">
          <Icon name="loading" spin />
          <span>{l10n.t('Starting…')}</span>
        </div>
      );
    case 'installing':
      return (
        <div class="banner" role="status">
          <Icon name="loading" spin />
          <span>{server.step}</span>
        </div>
      );
    case 'restarting':
      return (
        <div class="banner warning" role="alert">
          <Icon name="warning" />
          <span>
            {l10n.t('The server stopped. Starting it again in {0}s.', Math.max(1, Math.round(server.inMs / 1000)))}
          </span>
          <Button onPress={() => post({ type: 'command', command: 'restart' })}>{l10n.t('Now')}</Button>
        </div>
      );
    case 'missing':
      return (
        <div class="banner warning" role="alert">
          <Icon name="warning" />
          <span>{server.reason}</span>
          {server.canInstall && (
            <Button kind="primary" onPress={() => post({ type: 'command', command: 'install' })}>
              {l10n.t('Install the server')}
            </Button>
          )}
          <Button onPress={() => post({ type: 'command', command: 'settings' })}>{l10n.t('Settings')}</Button>
          <Button kind="link" onPress={() => post({ type: 'command', command: 'showLog' })}>
            {l10n.t('Show log')}
          </Button>
        </div>
      );
    case 'stopped':
      return (
        <div class="banner error" role="alert">
          <Icon name="error" />
          <span>{server.reason}</span>
          <Button kind="primary" onPress={() => post({ type: 'command', command: 'restart' })}>
            {l10n.t('Restart')}
          </Button>
          <Button kind="link" onPress={() => post({ type: 'command', command: 'showLog' })}>
            {l10n.t('Show log')}
          </Button>
        </div>
      );
    default:
      return server satisfies never;
  }
}
