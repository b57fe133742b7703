/** The card of a pending approval. It never takes the focus by itself and ignores input for its first half second. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ApprovalOption, ApprovalRequest, OptionId } from '../../src/protocol.gen.ts';
import { Button, Icon, Lines, memo, Path, Toolbar } from '../common/controls.tsx';
import { previewDiff, previewFiles } from '../common/diffLines.ts';
import { Diff } from '../common/diffView.tsx';
import { focusNextCard } from '../common/focus.ts';
import { commandNotes, escaped, lookAlikes, questionTitle, sentence, workingDirectory } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { allowByRule, allowTurnEdits, answer, toggle } from '../state/actions.ts';
import type { PendingApproval } from '../state/state.ts';
import { post } from '../state/store.ts';
import { consequences } from './consequences.ts';
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
  mac: boolean;
  allowedBefore: number;
  diffOpen: boolean;
}

export const ApprovalCard = memo(({ pending, folder, place, of, mac, allowedBefore, diffOpen }: Props) => {
  const { request } = pending;
  const id = request.approvalId;
  const [panel, setPanel] = useState<Panel>('none');
  const card = useRef<HTMLElement>(null);
  const acceptsInput = useInputDelay(id);
  const warnings = request.preview.kind === 'command' ? consequences(request.preview.parsed) : [];
  const marks = lookAlikes(previewText(request));
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
  const real = option('allow_real');
  const allow = pending.amended
    ? l10n.t('Allow with my changes')
    : real
      ? l10n.t('Apply these changes')
      : l10n.t('Allow');
  return (
    <section
      class={warnings.length > 0 ? 'card approval destructive' : 'card approval'}
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
        <Icon name={warnings.length > 0 ? 'warning' : 'question'} />
        <h3 class="card-title" title={questionTitle(request.call)}>
          {questionTitle(request.call)}
        </h3>
        <LineCounts request={request} />
        {of > 1 && <span class="meta card-place">{l10n.t('{0} of {1}', place, of)}</span>}
      </header>
      {warnings.map((warning) => (
        <p key={warning} class="card-warning">
          {escaped(warning)}
        </p>
      ))}
      {marks.length > 0 && (
        <p class="card-warning">{l10n.t('Contains letters that look like others: {0}', marks.join(', '))}</p>
      )}
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
              forPath={request.preview.kind === 'diff'}
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
                  <Button
                    kind="primary"
                    className={warnings.length > 0 ? 'danger' : ''}
                    label={allow}
                    onPress={() => respond('allow_once')}
                  >
                    {allow}
                    <kbd>{mac ? '⌘K A' : 'Ctrl+K A'}</kbd>
                  </Button>
                  {(session || always || real) && (
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
                <Button label={l10n.t('Deny…')} onPress={() => setPanel('deny')}>
                  {l10n.t('Deny…')}
                  <kbd>{mac ? '⌘K X' : 'Ctrl+K X'}</kbd>
                </Button>
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
                  {real && (
                    <MenuItem
                      label={l10n.t('Run it for real')}
                      detail={l10n.t('The command runs again, in the workspace')}
                      onPress={() => respond('allow_real')}
                    />
                  )}
                  {session && (
                    <MenuItem
                      label={l10n.t('For this session')}
                      detail={session.rule}
                      onPress={() => respond('allow_session')}
                    />
                  )}
                  {session && request.preview.kind === 'diff' && (
                    <MenuItem
                      label={l10n.t('All edits of this turn')}
                      detail={l10n.t('Also those that follow, until the turn ends')}
                      onPress={() => {
                        focusNextCard(card.current);
                        allowTurnEdits(id);
                      }}
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
  const diffs = previewFiles(request).map(previewDiff);
  if (diffs.length === 0) return null;
  return (
    <Lines
      added={diffs.reduce((sum, diff) => sum + diff.added, 0)}
      removed={diffs.reduce((sum, diff) => sum + diff.removed, 0)}
    />
  );
}

interface PreviewProps {
  request: ApprovalRequest;
  folder: string | undefined;
  diffOpen: boolean;
}

function PreviewBox({ request, folder, diffOpen }: PreviewProps) {
  const { preview } = request;
  const directory = preview.kind === 'command' ? workingDirectory(preview.cwd, folder) : undefined;
  const notes = [...(directory === undefined ? [] : [l10n.t('in {0}', directory)]), ...commandNotes(request.call)];
  switch (preview.kind) {
    case 'diff':
      return <FileDiffs request={request} folder={folder} diffOpen={diffOpen} />;
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
          {notes.length > 0 && <p class="meta">{notes.join(' · ')}</p>}
          {preview.effects && (
            <>
              <FileDiffs request={request} folder={folder} diffOpen={diffOpen} />
              {preview.effects.output !== '' && (
                <pre tabIndex={0} role="group" aria-label={l10n.t('Output')}>
                  {escaped(preview.effects.output)}
                </pre>
              )}
              {preview.effects.note && <p class="note">{sentence(escaped(preview.effects.note))}</p>}
            </>
          )}
        </div>
      );
    case 'text':
      return <pre class="preview-text">{escaped(preview.text)}</pre>;
    default:
      return preview satisfies never;
  }
}

function FileDiffs({ request, folder, diffOpen }: PreviewProps) {
  const files = previewFiles(request);
  const { preview } = request;
  const impact = preview.kind === 'diff' ? preview.impact : preview.kind === 'command' && preview.effects?.impact;
  return (
    <>
      {impact && <p class="meta">{escaped(impact)}</p>}
      {files.map((file, index) => (
        <div class="preview-file" key={file.uri}>
          {(files.length > 1 || request.preview.kind === 'command') && <Path uri={file.uri} folder={folder} />}
          {file.after === null && <p class="note">{l10n.t('This deletes the file.')}</p>}
          <Diff
            lines={previewDiff(file).lines}
            uri={file.uri}
            open={diffOpen}
            onOpen={(open) => toggle(`${request.approvalId}/diff`, open)}
            onEditor={() => post({ type: 'openDiff', approvalId: request.approvalId, file: index })}
          />
        </div>
      ))}
    </>
  );
}

/** Whether a new card, or a button for several calls, accepts input yet. */
export function useInputDelay(key: string): boolean {
  const [ready, setReady] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setReady(key), INPUT_DELAY);
    return () => clearTimeout(timer);
  }, [key]);
  return ready === key;
}

function previewText({ call, preview }: ApprovalRequest): string {
  switch (preview.kind) {
    case 'command':
      return preview.command;
    case 'text':
      return preview.text;
    case 'diff':
      return call.title;
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
