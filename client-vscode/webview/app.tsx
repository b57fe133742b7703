/** The whole view, top to bottom. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { memo } from './common/controls.tsx';
import { saidWords } from './common/format.ts';
import { Composer } from './composer/composer.tsx';
import { Dock } from './composer/dock.tsx';
import type { Said, State } from './state/state.ts';
import { state as store } from './state/store.ts';
import { Transcript } from './transcript/transcript.tsx';
import { ServerBanner, Skeleton, Unopened, Welcome } from './welcome.tsx';

export function App() {
  const state = store.value;
  // What a restart took from the last turn, the turn itself says.
  const last = state.turns.at(-1);
  return (
    <div class="app">
      <ServerBanner
        server={state.server}
        crashed={state.crashed && last?.end?.error?.kind !== 'restarted'}
        cut={last?.status === 'interrupted'}
      />
      <Main state={state} />
      <Dock state={state} />
      <Composer state={state} />
      <Announcer quiet={state.quiet} urgent={state.urgent} />
    </div>
  );
}

/** A prompt that was sent is seen, whatever else is still on its way. */
function Main({ state }: { state: State }) {
  if (state.turns.length > 0) return <Transcript state={state} />;
  if (state.opening !== null) return <Skeleton />;
  if (state.unopened) return <Unopened {...state.unopened} />;
  return state.approvals.length > 0 ? <Transcript state={state} /> : <Welcome state={state} />;
}

/** At most one quiet line in this time, in ms. */
const QUIET = 3000;

/** The two lines a screen reader hears: one polite, one urgent. Never tokens. */
const Announcer = memo(({ quiet, urgent }: { quiet: Said; urgent: Said }) => {
  const [polite, setPolite] = useState('');
  const last = useRef(-QUIET);
  useEffect(() => {
    if (quiet.n === 0) return;
    const wait = Math.max(0, last.current + QUIET - performance.now());
    const timer = setTimeout(() => {
      last.current = performance.now();
      setPolite(saidWords(quiet));
    }, wait);
    return () => clearTimeout(timer);
  }, [quiet.n]);
  return (
    <>
      <div class="only-read" role="status" aria-live="polite">
        {polite}
      </div>
      <div class="only-read" role="alert" aria-live="assertive">
        {urgent.n === 0 ? '' : saidWords(urgent)}
      </div>
    </>
  );
});
