/** The root component of the chat view. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { memo } from './common/controls.tsx';
import { announcementText } from './common/format.ts';
import { Composer } from './composer/composer.tsx';
import { Dock } from './composer/dock.tsx';
import { FilesBar } from './composer/filesBar.tsx';
import type { Announcement, State } from './state/state.ts';
import { state as store } from './state/store.ts';
import { Transcript } from './transcript/transcript.tsx';
import { OpenError, ServerBanner, Skeleton, TaskBanner, Welcome } from './welcome.tsx';

export function App() {
  const state = store.value;
  // If the restart ended the last turn, that turn shows it, so the banner is not needed.
  const last = state.turns.at(-1);
  return (
    <div class="app">
      <ServerBanner
        server={state.server}
        crashed={state.crashed && last?.end?.error?.kind !== 'restarted'}
        interrupted={last?.status === 'interrupted'}
      />
      <TaskBanner task={state.task} />
      <Main state={state} />
      <Dock state={state} />
      <FilesBar state={state} />
      <Composer state={state} />
      <Announcer polite={state.polite} urgent={state.urgent} />
    </div>
  );
}

/** A sent prompt is shown at once, even while its session is still loading. */
function Main({ state }: { state: State }) {
  if (state.turns.length > 0) return <Transcript state={state} />;
  if (state.opening !== null) return <Skeleton />;
  if (state.openError) return <OpenError {...state.openError} />;
  return state.approvals.length > 0 ? <Transcript state={state} /> : <Welcome state={state} />;
}

/** Minimum time between two polite announcements, in ms. */
const POLITE_INTERVAL = 3000;

/** The live regions for screen readers, one polite and one urgent. Streamed text is not announced. */
const Announcer = memo(({ polite, urgent }: { polite: Announcement; urgent: Announcement }) => {
  const [text, setText] = useState('');
  const last = useRef(-POLITE_INTERVAL);
  useEffect(() => {
    if (polite.n === 0) return;
    const wait = Math.max(0, last.current + POLITE_INTERVAL - performance.now());
    const timer = setTimeout(() => {
      last.current = performance.now();
      setText(announcementText(polite));
    }, wait);
    return () => clearTimeout(timer);
  }, [polite.n]);
  return (
    <>
      <div class="only-read" role="status" aria-live="polite">
        {text}
      </div>
      <div class="only-read" role="alert" aria-live="assertive">
        {urgent.n === 0 ? '' : announcementText(urgent)}
      </div>
    </>
  );
});
