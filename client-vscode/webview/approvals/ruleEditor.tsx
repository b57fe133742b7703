/** Shows the rule that "Always…" saves, with what it matches, and lets the user change it first. */

import { useState } from 'preact/hooks';
import type { ApprovalOption } from '../../src/protocol.gen.ts';
import { Button } from '../common/controls.tsx';
import { escaped } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import type { NewRule } from '../messages.ts';
import { post, state as store } from '../state/store.ts';
import { goBack } from './approvalCard.tsx';
import { coverage } from './ruleCoverage.ts';

interface Props {
  option: ApprovalOption;
  fault: string | undefined;
  /** whether the pattern is a path */
  forPath: boolean;
  onBack: () => void;
  /** without a rule, the offered rule is saved */
  onAllow: (rule: NewRule | undefined) => void;
}

export function RuleEditor({ option, fault, forPath, onBack, onAllow }: Props) {
  const { tool, pattern: offered = '' } = option;
  const [pattern, setPattern] = useState(offered);
  const [scope, setScope] = useState<NewRule['scope']>('workspace');
  const folder = forPath ? folderPattern(offered) : undefined;
  const changed = pattern.trim() !== offered || scope !== 'workspace';
  const allow = () => onAllow(changed && tool !== undefined ? { tool, pattern: pattern.trim(), scope } : undefined);
  return (
    <div class="card-panel">
      <p class="rule-words">
        {changed ? l10n.t('Custom rule') : <Quoted text={escaped(option.rule ?? option.label)} />}
      </p>
      {tool !== undefined && (
        <div class="rule-fields">
          <label>
            <span class="meta">{l10n.t('Rule')}</span>
            <input
              class="code-input"
              value={pattern}
              spellcheck={false}
              onInput={(event) => setPattern(event.currentTarget.value)}
              onKeyDown={(event) => goBack(event, onBack)}
            />
            {folder !== undefined && (
              <span class="rule-choices">
                <Button kind="link" onPress={() => setPattern(offered)}>
                  {l10n.t('This file')}
                </Button>
                <Button kind="link" onPress={() => setPattern(folder)}>
                  {l10n.t('Its folder: {0}', folder)}
                </Button>
              </span>
            )}
          </label>
          <label>
            <span class="meta">{l10n.t('Scope')}</span>
            <select value={scope} onChange={(event) => setScope(event.currentTarget.value as NewRule['scope'])}>
              <option value="session">{l10n.t('This session')}</option>
              <option value="workspace">{l10n.t('This workspace')}</option>
              <option value="user">{l10n.t('Everywhere')}</option>
            </select>
          </label>
        </div>
      )}
      {tool !== undefined && <Examples option={option} tool={tool} pattern={pattern.trim()} changed={changed} />}
      {fault !== undefined && (
        <p class="error-text" role="alert">
          {fault}
        </p>
      )}
      <p class="meta">
        {l10n.t('The rule is saved in your settings. To remove it, open')}{' '}
        <Button kind="link" onPress={() => post({ type: 'command', command: 'rules' })}>
          {l10n.t('Rules')}
        </Button>
      </p>
      <div class="card-buttons">
        <Button kind="primary" disabled={tool !== undefined && pattern.trim() === ''} onPress={allow}>
          {l10n.t('Save rule and allow')}
        </Button>
        <Button kind="link" onPress={onBack}>
          {l10n.t('Back')}
        </Button>
      </div>
    </div>
  );
}

/** The pattern of a file's folder: `src/auth.ts` → `src/**`. Undefined for a pattern, or a file at the root. */
function folderPattern(pattern: string): string | undefined {
  const cut = pattern.lastIndexOf('/');
  return cut > 1 && !/[*?[\]{}]/.test(pattern) ? `${pattern.slice(0, cut)}/**` : undefined;
}

/** Renders text between backticks as code. */
function Quoted({ text }: { text: string }) {
  return <>{text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

interface ExamplesProps {
  option: ApprovalOption;
  tool: string;
  pattern: string;
  changed: boolean;
}

function Examples({ option, tool, pattern, changed }: ExamplesProps) {
  const { covered, of } = coverage(store.value.turns, tool, pattern);
  const shown = changed ? [] : option.excludes.slice(0, 2);
  return (
    <p class="meta rule-examples">
      {of > 0 && <span>{l10n.t('Matches {0} of the last {1} calls.', covered, of)} </span>}
      {shown.length > 0 && (
        <span>
          {l10n.t('Does not match:')}{' '}
          {shown.map((example, index) => (
            <>
              {index > 0 && ', '}
              <code key={example}>{escaped(example)}</code>
            </>
          ))}
        </span>
      )}
    </p>
  );
}
