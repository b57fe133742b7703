/** The pending approvals of the session: one card, the oldest first, always in the same place, and a list of the others. */

import { useEffect, useState } from 'preact/hooks';
import { Button, Icon, Lines } from '../common/controls.tsx';
import { previewDiff } from '../common/diffLines.ts';
import { focusCard, focusNextCard, requestedCard } from '../common/focus.ts';
import { escaped, questionTitle, workingDirectory } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { answer } from '../state/actions.ts';
import { callKind } from '../state/reduce.ts';
import { type PendingApproval, type State, sessionApprovals } from '../state/state.ts';
import { ApprovalCard, useInputDelay } from './approvalCard.tsx';
import { setCards } from './cardVisibility.ts';

/** Commands up to this length are listed whole. A longer one can be read only in its card. */
const MAX_LISTED = 400;

export function PendingApprovals({ state }: { state: State }) {
  const own = sessionApprovals(state);
  const unanswered = own.filter((pending) => !pending.answering);
  const [chosen, setChosen] = useState<string>();
  const current = unanswered.find(({ request }) => request.approvalId === chosen) ?? unanswered[0] ?? own[0];
  const others = unanswered.filter((pending) => pending !== current);
  const currentId = current?.request.approvalId ?? null;
  const listed = others.map(({ request }) => request.approvalId);
  useEffect(() => setCards(currentId, listed), [currentId, listed.join()]);

  // Show and focus the requested approval, now or when it arrives; null is the one after the current one.
  const requested = requestedCard.value;
  useEffect(() => {
    if (requested === undefined) return;
    const at = unanswered.findIndex(({ request }) => request.approvalId === (requested ?? currentId));
    const focused = document.activeElement?.closest('[data-approval]') !== null;
    const wanted = unanswered[requested === null && focused ? (at + 1) % unanswered.length : at];
    if (!wanted) return;
    if (wanted !== current) {
      setChosen(wanted.request.approvalId);
      requestedCard.value = wanted.request.approvalId;
      return;
    }
    requestedCard.value = undefined;
    focusShown(wanted);
  });

  if (!current) return null;
  const folder = state.session?.workspaceFolder ?? undefined;
  return (
    <>
      {others.length > 0 && <Others others={others} current={current} folder={folder} onShow={setChosen} />}
      <ApprovalCard
        key={current.request.approvalId}
        pending={current}
        folder={folder}
        place={unanswered.indexOf(current) + 1}
        of={unanswered.length}
        mac={state.mac}
        allowedBefore={state.allowedCounts[callKind(current.request)] ?? 0}
        diffOpen={state.toggles[`${current.request.approvalId}/diff`] ?? false}
      />
    </>
  );
}

function focusShown({ request }: PendingApproval): void {
  const card = document.querySelector(`[data-approval="${CSS.escape(request.approvalId)}"]`);
  if (card) focusCard(card);
}

interface OthersProps {
  others: readonly PendingApproval[];
  current: PendingApproval;
  folder: string | undefined;
  onShow: (approvalId: string) => void;
}

function Others({ others, current, folder, onShow }: OthersProps) {
  const show = (approvalId: string) => {
    onShow(approvalId);
    requestedCard.value = approvalId;
  };
  return (
    <div class="dock-group others">
      <div class="dock-line">
        <Icon name="question" />
        <span class="dock-title">{l10n.t('{0} more waiting', others.length)}</span>
        <AllowCommands waiting={[current, ...others]} />
      </div>
      <ul class="dock-list" aria-label={l10n.t('Other approvals')}>
        {others.map((pending) => (
          <li key={pending.request.approvalId}>
            <Summary pending={pending} folder={folder} />
            <Button
              kind="link"
              label={l10n.t('Show card: {0}', questionTitle(pending.request.call))}
              onPress={() => show(pending.request.approvalId)}
            >
              {l10n.t('Show')}
            </Button>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A command as a whole, or the title of another call. */
function Summary({ pending: { request }, folder }: { pending: PendingApproval; folder: string | undefined }) {
  const { preview } = request;
  if (preview.kind === 'command' && isListedWhole(request.preview)) {
    const directory = workingDirectory(preview.cwd, folder);
    return (
      <span class="whole">
        <code>{escaped(preview.command)}</code>
        {directory !== undefined && <span class="meta"> {l10n.t('in {0}', directory)}</span>}
      </span>
    );
  }
  const diffs = preview.kind === 'diff' ? preview.files.map(previewDiff) : [];
  return (
    <>
      <span class="dock-title">{questionTitle(request.call)}</span>
      <Lines
        added={diffs.reduce((sum, diff) => sum + diff.added, 0)}
        removed={diffs.reduce((sum, diff) => sum + diff.removed, 0)}
      />
    </>
  );
}

/** What a tried command changed is shown only in its card. */
function isListedWhole(preview: PendingApproval['request']['preview']): boolean {
  return preview.kind === 'command' && preview.command.length <= MAX_LISTED && !preview.effects;
}

/** Allows all waiting commands at once, if all of them can be read completely where the button is. */
function AllowCommands({ waiting }: { waiting: readonly PendingApproval[] }) {
  const commands = waiting.filter(({ request }) => request.preview.kind === 'command');
  const acceptsInput = useInputDelay(commands.map(({ request }) => request.approvalId).join());
  if (commands.length < 2 || !commands.every(({ request }) => isListedWhole(request.preview))) return null;
  return (
    <Button
      disabled={!acceptsInput}
      onPress={(event) => {
        const { currentTarget } = event;
        focusNextCard(currentTarget instanceof Element ? currentTarget.closest('.dock') : null);
        for (const { request } of commands) answer(request.approvalId, 'allow_once');
      }}
    >
      {l10n.t('Allow {0} commands', commands.length)}
    </Button>
  );
}
