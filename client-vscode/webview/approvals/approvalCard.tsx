/** The card of a pending approval. It never takes the focus by itself and ignores input for its first half second. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ApprovalOption, ApprovalRequest, OptionId } from '../../src/protocol.gen.ts';
import { Button, Icon, Lines, memo, Path, Toolbar } from '../common/controls.tsx';
import { previewDiff } from '../common/diffLines.ts';
import { Diff } from '../common/diffView.tsx';
import { focusNextCard, scroller } from '../common/focus.ts';
import { escaped, questionTitle, sentence, workingDirectory } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { allowByRule, answer, toggle } from '../state/actions.ts';
import type { PendingApproval } from '../state/state.ts';
import { post } from '../state/store.ts';
import { watchCard } from './cardVisibility.ts';
import { RuleEditor } from './ruleEditor.tsx';

/** How long a new card ignores input, in ms, so that typing or clicking does not answer it by accident. */
const INPUT_DELAY = 500;
/** The card offers a session rule after this many similar calls were allowed once. */
const OFFER_AFTER = 3;

type Panel = 'none' | 'menu' | 'deny' | 'always' | 'change';

interface Props {
  pending: PendingApproval;
  folder: string | undefined;
  place: number;
  of: number;
  next: string | undefined;
  allowedBefore: number;
  diffOpen: boolean;
}

export const ApprovalCard = memo(({ pending, folder, place, of, next, allowedBefore, diffOpen }: Props) => {
  const { request } = pending;
  const id = request.approvalId;
  const [panel, setPanel] = useState<Panel>('none');
  const card = useRef<HTMLElement>(null);
  const [acceptsInput, setAcceptsInput] = useState(false);
  useEffect(() => watchCard(id, card.current), [id]);
  useEffect(() => {
    const timer = setTimeout(() => setAcceptsInput(true), INPUT_DELAY);
    return () => clearTimeout(timer);
  }, [id]);
  // An open panel makes the card taller: keep its top visible even while the chat follows the end.
  useLayoutEffect(() => {
    if (panel !== 'none' && card.current) scroller.showWhole(card.current);
  }, [panel]);
  const option = (name: OptionId) => request.options.find((one) => one.id === name);
  const respond = (optionId: OptionId, more: { feedback?: string; args?: Record<string, unknown> } = {}) => {
    focusNextCard(card.current);
    answer(id, optionId, more);
  };
  const blockEarlyInput = (event: Event) => {
    if (acceptsInput) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const session = option('allow_session');
  const always = option('allow_always');
  return (
    <section
      class="card approval"
      ref={card}
      data-approval={id}
      data-accepts-input={acceptsInput ? 'yes' : undefined}
      data-pending={pending.answering ? undefined : 'yes'}
      tabIndex={-1}
      aria-label={l10n.t('Approval: {0}', questionTitle(request.call))}
      onClickCapture={blockEarlyInput}
      onKeyDownCapture={blockEarlyInput}
    >
      <header class="card-head">
        <Icon name="question" />
        <h3 class="card-title" title={questionTitle(request.call)}>
          {questionTitle(request.call)}
        </h3>
        <LineCounts request={request} />
      </header>
      {request.reason && <p class="card-reason">{sentence(escaped(request.reason))}</p>}
      {panel === 'change' && request.preview.kind === 'command' ? (
        <ChangeCommand
          request={request}
          onBack={() => setPanel('none')}
          onAllow={(args) => respond('allow_once', { args })}
        />
      ) : (
        <PreviewBox request={request} folder={folder} diffOpen={diffOpen} />
      )}
      {pending.answering ? (
        <p class="card-answer" role="status">
          {pending.answering === 'allow' ? l10n.t('Allowed') : l10n.t('Denied')}
        </p>
      ) : (
        <>
          {panel === 'deny' && (
            <Deny
              onBack={() => setPanel('none')}
              onDeny={(optionId, feedback) => respond(optionId, feedback ? { feedback } : {})}
              never={option('reject_always')}
            />
          )}
          {panel === 'always' && always && (
            <RuleEditor
              option={always}
              fault={pending.fault}
              onBack={() => setPanel('none')}
              onAllow={(rule) => {
                if (!rule) return respond('allow_always');
                focusNextCard(card.current);
                allowByRule(id, rule);
              }}
            />
          )}
          {(panel === 'none' || panel === 'menu') && (
            <>
              {allowedBefore === OFFER_AFTER && session && (
                <p class="card-offer">
                  {l10n.t('Allowed {0} times.', allowedBefore)}{' '}
                  <Button kind="link" onPress={() => respond('allow_session')}>
                    {l10n.t('Allow for this session')}
                  </Button>
                </p>
              )}
              {pending.amended && (
                <p class="card-offer">
                  {l10n.t('You changed this in the diff editor.')}{' '}
                  <Button kind="link" onPress={() => post({ type: 'discardAmended', approvalId: id })}>
                    {l10n.t('Discard')}
                  </Button>
                </p>
              )}
              {pending.fault !== undefined && (
                <p class="note error-text" role="alert">
                  {pending.fault}
                </p>
              )}
              <Toolbar className="card-buttons" label={l10n.t('Answer')}>
                <span class="split">
                  <Button kind="primary" onPress={() => respond('allow_once')}>
                    {pending.amended ? l10n.t('Allow with my changes') : l10n.t('Allow')}
                  </Button>
                  {(session || always) && (
                    <button
                      type="button"
                      class="button primary split-more"
                      aria-label={l10n.t('More ways to allow')}
                      aria-expanded={panel === 'menu'}
                      onClick={() => setPanel(panel === 'menu' ? 'none' : 'menu')}
                    >
                      <Icon name="chevron-down" />
                    </button>
                  )}
                </span>
                <Button onPress={() => setPanel('deny')}>{l10n.t('Deny…')}</Button>
                {request.amendable && request.preview.kind === 'command' && (
                  <Button kind="link" onPress={() => setPanel('change')}>
                    {l10n.t('Change…')}
                  </Button>
                )}
                {request.amendable && request.preview.kind === 'diff' && (
                  <Button kind="link" onPress={() => post({ type: 'amend', approvalId: id })}>
                    {l10n.t('Change…')}
                  </Button>
                )}
              </Toolbar>
              {panel === 'menu' && (
                <Toolbar
                  className="card-menu"
                  role="menu"
                  label={l10n.t('More ways to allow')}
                  onEscape={() => setPanel('none')}
                >
                  <MenuItem label={l10n.t('Once')} onPress={() => respond('allow_once')} />
                  {session && (
                    <MenuItem
                      label={l10n.t('For this session')}
                      detail={session.rule}
                      onPress={() => respond('allow_session')}
                    />
                  )}
                  {always && (
                    <MenuItem label={l10n.t('Always…')} detail={always.rule} onPress={() => setPanel('always')} />
                  )}
                </Toolbar>
              )}
            </>
          )}
        </>
      )}
      {of > 1 && (
        <footer class="card-foot">
          {l10n.t('{0} of {1}', place, of)}
          {next && ` · ${l10n.t('next: {0}', next)}`}
        </footer>
      )}
    </section>
  );
});

function MenuItem({ label, detail, onPress }: { label: string; detail?: string | undefined; onPress: () => void }) {
  return (
    <button type="button" class="menu-item" role="menuitem" onClick={onPress}>
      <span>{label}</span>
      {detail && <span class="meta">{escaped(detail)}</span>}
    </button>
  );
}

function LineCounts({ request }: { request: ApprovalRequest }) {
  if (request.preview.kind !== 'diff') return null;
  const diffs = request.preview.files.map(previewDiff);
  return (
    <Lines
      added={diffs.reduce((sum, diff) => sum + diff.added, 0)}
      removed={diffs.reduce((sum, diff) => sum + diff.removed, 0)}
    />
  );
}

function PreviewBox({
  request,
  folder,
  diffOpen,
}: {
  request: ApprovalRequest;
  folder: string | undefined;
  diffOpen: boolean;
}) {
  const { preview } = request;
  const directory = preview.kind === 'command' ? workingDirectory(preview.cwd, folder) : undefined;
  switch (preview.kind) {
    case 'diff':
      return (
        <>
          {preview.files.map((file, index) => (
            <div class="preview-file" key={file.uri}>
              {preview.files.length > 1 && <Path uri={file.uri} folder={folder} />}
              {file.after === null && <p class="note">{l10n.t('This deletes the file.')}</p>}
              <Diff
                lines={previewDiff(file).lines}
                open={diffOpen}
                onOpen={(open) => toggle(`${request.approvalId}/diff`, open)}
                onEditor={() => post({ type: 'openDiff', approvalId: request.approvalId, file: index })}
              />
            </div>
          ))}
        </>
      );
    case 'command':
      return (
        <div class="preview-command">
          <pre tabIndex={0} role="group" aria-label={l10n.t('Command')}>
            {escaped(preview.command)}
          </pre>
          {preview.parsed.length > 1 && (
            <ol class="parsed">
              {preview.parsed.map((part) => (
                <li key={part}>{escaped(part)}</li>
              ))}
            </ol>
          )}
          {directory !== undefined && <p class="meta">{l10n.t('in {0}', directory)}</p>}
        </div>
      );
    case 'text':
      return <pre class="preview-text">{escaped(preview.text)}</pre>;
    default:
      return preview satisfies never;
  }
}

interface DenyProps {
  onBack: () => void;
  onDeny: (optionId: 'reject' | 'reject_always', feedback: string) => void;
  never: ApprovalOption | undefined;
}

function Deny({ onBack, onDeny, never }: DenyProps) {
  const box = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => box.current?.focus(), []);
  const feedback = () => box.current?.value.trim() ?? '';
  const deny = () => onDeny('reject', feedback());
  return (
    <div class="card-panel">
      <textarea
        ref={box}
        rows={2}
        aria-label={l10n.t('What should it do instead?')}
        placeholder={l10n.t('What should it do instead? (optional)')}
        onKeyDown={(event) => {
          if (isComposing(event)) return;
          if (event.key === 'Enter' && !event.shiftKey) {
            event.preventDefault();
            deny();
          } else {
            goBack(event, onBack);
          }
        }}
      />
      <div class="card-buttons">
        <Button kind="primary" onPress={deny}>
          {l10n.t('Deny')}
        </Button>
        {never && <Button onPress={() => onDeny('reject_always', feedback())}>{l10n.t('Never allow')}</Button>}
        <Button kind="link" onPress={onBack}>
          {l10n.t('Back')}
        </Button>
      </div>
      {never?.rule && <p class="note">{l10n.t('“Never allow” saves a rule: {0}', escaped(never.rule))}</p>}
    </div>
  );
}

interface ChangeProps {
  request: ApprovalRequest;
  onBack: () => void;
  onAllow: (args: Record<string, unknown>) => void;
}

function ChangeCommand({ request, onBack, onAllow }: ChangeProps) {
  const box = useRef<HTMLTextAreaElement>(null);
  const command = request.preview.kind === 'command' ? request.preview.command : '';
  useLayoutEffect(() => box.current?.focus(), []);
  const name = Object.keys(request.call.args).find((key) => request.call.args[key] === command) ?? 'command';
  return (
    <div class="card-panel">
      <textarea
        ref={box}
        class="code-input"
        rows={Math.min(8, command.split('\n').length + 1)}
        aria-label={l10n.t('Command')}
        spellcheck={false}
        defaultValue={command}
        onKeyDown={(event) => goBack(event, onBack)}
      />
      <div class="card-buttons">
        <Button kind="primary" onPress={() => onAllow({ ...request.call.args, [name]: box.current?.value ?? command })}>
          {l10n.t('Allow with my changes')}
        </Button>
        <Button kind="link" onPress={onBack}>
          {l10n.t('Back')}
        </Button>
      </div>
    </div>
  );
}

/** Escape closes the panel of a card and nothing else. */
export function goBack(event: KeyboardEvent, onBack: () => void): void {
  if (event.key !== 'Escape' || isComposing(event)) return;
  event.stopPropagation();
  onBack();
}

export function isComposing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}
