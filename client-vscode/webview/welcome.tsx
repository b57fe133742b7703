/** What the view shows without a transcript: the start page, loading and open errors, and the banner of the server. */

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Button, Icon, IconButton } from './common/controls.tsx';
import { composerFocus } from './common/focus.ts';
import { ago, duration } from './common/format.ts';
import type { IconName } from './common/icons.ts';
import { l10n } from './common/l10n.ts';
import { addToDraft } from './composer/draft.ts';
import type { ServerState, TaskState, ViewCommand } from './messages.ts';
import { continueTurn } from './state/actions.ts';
import { acceptsPrompts, type State } from './state/state.ts';
import { dispatch, post } from './state/store.ts';

export function Welcome({ state }: { state: State }) {
  const suggest = (text: string) => {
    addToDraft(text, []);
    composerFocus.value += 1;
  };
  const canPrompt = acceptsPrompts(state);
  // Without a server there is no model either; connecting one installs the server first.
  const needsModel =
    state.server.status === 'absent' || (state.model !== null && (state.model.demo || !state.model.available));
  return (
    <main class="welcome" aria-label={l10n.t('Start')}>
      <Mark />
      <h1>{l10n.t('What should we change?')}</h1>
      {needsModel && (
        <div class="welcome-model">
          <p>
            {state.model === null || state.model.demo
              ? l10n.t('No model is connected. A scripted guide answers until you connect one.')
              : l10n.t('No model is connected. {0}', state.model?.reason ?? '')}
          </p>
          <Button kind="primary" onPress={() => post({ type: 'command', command: 'selectModel' })}>
            {l10n.t('Connect a model')}
          </Button>
          <Button onPress={() => post({ type: 'command', command: 'openSample' })}>
            {l10n.t('Try it in a sample project')}
          </Button>
        </div>
      )}
      {canPrompt && (
        <>
          <h2>{l10n.t('Try')}</h2>
          <ul class="starts">
            <Start icon="file" onPress={() => post({ type: 'command', command: 'explain' })}>
              {l10n.t('Explain this file')}
            </Start>
            <Start icon="problem" onPress={() => suggest(l10n.t('Find and fix the failing test'))}>
              {l10n.t('Find and fix the failing test')}
            </Start>
            <Start icon="diff" onPress={() => suggest(l10n.t('Review my uncommitted changes'))}>
              {l10n.t('Review my uncommitted changes')}
            </Start>
          </ul>
        </>
      )}
      {state.recent.length > 0 && (
        <>
          <h2>{l10n.t('Recent')}</h2>
          <ul class="starts">
            {state.recent.slice(0, 5).map((session) => (
              <Start
                key={session.id}
                icon="history"
                aside={ago(session.updatedAt, Date.now())}
                onPress={() => post({ type: 'openSession', sessionId: session.id })}
              >
                {session.title || l10n.t('Untitled')}
              </Start>
            ))}
          </ul>
        </>
      )}
    </main>
  );
}

interface StartProps {
  icon: IconName;
  aside?: string;
  onPress: () => void;
  children: ComponentChildren;
}

function Start({ icon, aside, onPress, children }: StartProps) {
  return (
    <li>
      <button type="button" class="start" onClick={onPress}>
        <Icon name={icon} />
        <span class="start-title">{children}</span>
        {aside && <span class="meta">{aside}</span>}
      </button>
    </li>
  );
}

/** The drawing of media/pilotfish.svg. */
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

/** Why a session could not be loaded, and what the user can do. */
export function OpenError({ sessionId, message }: { sessionId: string; message: string }) {
  return (
    <main class="welcome" aria-label={l10n.t('Start')}>
      <div class="notice error boxed">
        <Icon name="error" />
        <div>
          <span>{l10n.t('This session could not be opened.')}</span>
          <span class="remedy">{message}</span>
          <div class="card-buttons">
            <Button kind="primary" onPress={() => post({ type: 'openSession', sessionId })}>
              {l10n.t('Retry')}
            </Button>
            <Button onPress={() => post({ type: 'command', command: 'newSession' })}>{l10n.t('New session')}</Button>
            <Button onPress={() => post({ type: 'command', command: 'showLog' })}>{l10n.t('Show log')}</Button>
          </div>
        </div>
      </div>
    </main>
  );
}

/** Shows the state of the server unless it is running normally. */
export function ServerBanner({
  server,
  crashed,
  interrupted,
}: {
  server: ServerState;
  crashed: boolean;
  interrupted: boolean;
}) {
  const log = (
    <Button kind="link" onPress={() => post({ type: 'command', command: 'showLog' })}>
      {l10n.t('Show log')}
    </Button>
  );
  switch (server.status) {
    case 'ready':
      if (!crashed) return null;
      return (
        <Banner
          kind="warning"
          text={
            interrupted
              ? l10n.t('Pilotfish restarted; the last step may be incomplete.')
              : l10n.t('Pilotfish restarted.')
          }
          onClose={() => dispatch({ type: 'dismissCrash' })}
        >
          {interrupted && <Button onPress={continueTurn}>{l10n.t('Continue')}</Button>}
          {log}
        </Banner>
      );
    case 'starting':
      return <Banner kind="quiet" text={l10n.t('Starting…')} />;
    case 'absent':
      return (
        <Banner
          kind="info"
          text={l10n.t('Your first prompt installs the server of Pilotfish, in a Python environment of its own.')}
        >
          <Button onPress={() => post({ type: 'command', command: 'install' })}>{l10n.t('Install now')}</Button>
          {server.notes.map((note) => (
            <p key={note} class="meta">
              {note}
            </p>
          ))}
        </Banner>
      );
    case 'installing':
      return <Progress {...server} label={l10n.t('Installing the server')} cancel="cancelInstall" />;
    case 'restarting':
      return (
        <Banner
          kind="warning"
          text={l10n.t('The server stopped. Restarting in {0}.', duration(Math.max(1000, server.inMs)))}
        >
          <Button onPress={() => post({ type: 'command', command: 'restart' })}>{l10n.t('Now')}</Button>
          {log}
        </Banner>
      );
    case 'missing':
      return (
        <Banner kind="warning" text={server.reason}>
          {server.command !== undefined && <Remedy command={server.command} />}
          {server.canInstall && (
            <Button kind="primary" onPress={() => post({ type: 'command', command: 'install' })}>
              {l10n.t('Try again')}
            </Button>
          )}
          <Button onPress={() => post({ type: 'command', command: 'settings' })}>{l10n.t('Settings')}</Button>
          {log}
        </Banner>
      );
    case 'stopped':
      return (
        <Banner kind="error" text={server.reason}>
          <Button kind="primary" onPress={() => post({ type: 'command', command: 'restart' })}>
            {l10n.t('Restart')}
          </Button>
          {log}
        </Banner>
      );
    default:
      return server satisfies never;
  }
}

/** Shows work of minutes, or why it failed and what mends it. */
export function TaskBanner({ task }: { task: TaskState | null }) {
  if (task === null) return null;
  if (task.status === 'running')
    return <Progress {...task} label={l10n.t('Preparing the model')} cancel="cancelTask" />;
  return (
    <Banner kind="warning" text={task.reason} onClose={() => post({ type: 'command', command: 'dismissTask' })}>
      {task.command !== undefined && <Remedy command={task.command} />}
      <Button kind="link" onPress={() => post({ type: 'command', command: 'showLog' })}>
        {l10n.t('Show log')}
      </Button>
    </Banner>
  );
}

interface ProgressProps {
  step: string;
  percent: number;
  since: number;
  label: string;
  cancel: ViewCommand;
}

/** The steps of long work: what it does now, how far it is, and how long it has taken. */
function Progress({ step, percent, since, label, cancel }: ProgressProps) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <Banner kind="busy" text={step}>
      <div class="progress">
        <progress value={percent} max={100} aria-label={label} />
        <span class="meta">{l10n.t('{0}% · {1}', percent, duration(Date.now() - since))}</span>
      </div>
      <Button kind="link" onPress={() => post({ type: 'command', command: cancel })}>
        {l10n.t('Cancel')}
      </Button>
    </Banner>
  );
}

/** The command that mends the cause of a failed installation. The terminal gets it without running it. */
function Remedy({ command }: { command: string }) {
  return (
    <div class="remedy-command">
      <p>{l10n.t('This command mends it:')}</p>
      <pre>{command}</pre>
      <Button onPress={() => post({ type: 'terminal', text: command })}>{l10n.t('Open in terminal')}</Button>
      <Button kind="link" onPress={() => post({ type: 'copy', text: command })}>
        {l10n.t('Copy')}
      </Button>
    </div>
  );
}

interface BannerProps {
  kind: 'quiet' | 'busy' | 'info' | 'warning' | 'error';
  text: string;
  onClose?: () => void;
  children?: ComponentChildren;
}

/** An icon with a text, and the actions below the text. */
function Banner({ kind, text, onClose, children }: BannerProps) {
  const inProgress = kind === 'quiet' || kind === 'busy';
  return (
    <div class={`banner ${kind}`} role={inProgress || kind === 'info' ? 'status' : 'alert'}>
      <Icon name={inProgress ? 'loading' : kind} spin={inProgress} />
      <div class="banner-body">
        <p>{text}</p>
        {children && <div class="card-buttons">{children}</div>}
      </div>
      {onClose && <IconButton icon="close" label={l10n.t('Dismiss')} onPress={onClose} />}
    </div>
  );
}
