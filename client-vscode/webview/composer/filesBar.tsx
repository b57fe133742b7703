/** The bar above the composer: the files with changes that the user has neither kept nor undone. */

import { Button, Icon, IconButton } from '../common/controls.tsx';
import { l10n } from '../common/l10n.ts';
import type { PendingFile } from '../messages.ts';
import { toggle } from '../state/actions.ts';
import type { State } from '../state/state.ts';
import { post } from '../state/store.ts';

/** A list of up to this many files is open at first. */
const FEW = 3;

export function FilesBar({ state }: { state: State }) {
  const files = state.pending;
  if (files.length === 0) return null;
  const open = state.toggles.files ?? files.length <= FEW;
  const title = files.length === 1 ? l10n.t('1 file') : l10n.t('{0} files', files.length);
  return (
    <section class="files-bar" aria-label={l10n.t('Changes to review')}>
      <div class="dock-line">
        <button type="button" class="row-head" aria-expanded={open} onClick={() => toggle('files', !open)}>
          <Icon name={open ? 'chevron-down' : 'chevron-right'} />
          <span class="files-count">{title}</span>
          <Counts added={sum(files, 'added')} removed={sum(files, 'removed')} />
        </button>
        <span class="files-decisions">
          <Button onPress={() => post({ type: 'review.decide', decision: 'undo' })}>{l10n.t('Undo all')}</Button>
          <Button kind="primary" onPress={() => post({ type: 'review.decide', decision: 'keep' })}>
            {l10n.t('Keep all')}
          </Button>
        </span>
      </div>
      {open && (
        <ul class="dock-list">
          {files.map((file) => (
            <FileRow key={file.uri} file={file} />
          ))}
        </ul>
      )}
    </section>
  );
}

const CHANGES = {
  created: { icon: 'add', label: () => l10n.t('Added') },
  edited: { icon: 'edit', label: () => l10n.t('Edited') },
  deleted: { icon: 'trash', label: () => l10n.t('Deleted') },
  renamed: { icon: 'arrow-right', label: () => l10n.t('Renamed') },
} as const;

function FileRow({ file }: { file: PendingFile }) {
  const { icon, label } = CHANGES[file.change];
  return (
    <li>
      <span class="direction" title={label()}>
        <Icon name={icon} />
        <span class="only-read">{label()}: </span>
      </span>
      <button
        type="button"
        class="dock-title dock-show"
        title={l10n.t('Show the changes in {0}', file.path)}
        onClick={() => post({ type: 'review.open', uri: file.uri })}
      >
        {file.path}
      </button>
      <Counts added={file.added} removed={file.removed} />
      <IconButton
        icon="discard"
        label={l10n.t('Undo the changes in {0}', file.path)}
        onPress={() => post({ type: 'review.decide', decision: 'undo', uri: file.uri })}
      />
      <IconButton
        icon="check"
        label={l10n.t('Keep the changes in {0}', file.path)}
        onPress={() => post({ type: 'review.decide', decision: 'keep', uri: file.uri })}
      />
    </li>
  );
}

function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="counts">
      <span class="added">+{added}</span> <span class="removed">−{removed}</span>
    </span>
  );
}

function sum(files: readonly PendingFile[], field: 'added' | 'removed'): number {
  return files.reduce((total, file) => total + file[field], 0);
}
