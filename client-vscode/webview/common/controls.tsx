/** Basic components: icons, buttons, toolbars, paths, line counts and `memo`. */

import { Component, type ComponentChildren, type FunctionComponent, h, type JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { relative } from './format.ts';
import { ICONS, type IconName } from './icons.ts';

export function Icon({ name, spin = false }: { name: IconName; spin?: boolean }): JSX.Element {
  const glyph = String.fromCodePoint(Number.parseInt(ICONS[name], 16));
  return (
    <span class={spin ? 'icon spin' : 'icon'} aria-hidden="true">
      {glyph}
    </span>
  );
}

/** Shows that a row can be opened, and whether it is open. */
export function Chevron({ open }: { open: boolean }) {
  return (
    <span class="chevron">
      <Icon name={open ? 'chevron-down' : 'chevron-right'} />
    </span>
  );
}

interface ButtonProps {
  onPress: (event: MouseEvent) => void;
  children: ComponentChildren;
  kind?: 'primary' | 'secondary' | 'link';
  label?: string;
  title?: string;
  disabled?: boolean;
  className?: string;
}

export function Button({
  onPress,
  children,
  kind = 'secondary',
  label,
  title,
  disabled = false,
  className = '',
}: ButtonProps) {
  return (
    <button
      type="button"
      class={`button ${kind} ${className}`}
      aria-label={label}
      title={title}
      disabled={disabled}
      onClick={onPress}
    >
      {children}
    </button>
  );
}

interface IconButtonProps {
  icon: IconName;
  label: string;
  onPress: (event: MouseEvent) => void;
  className?: string;
  expanded?: boolean;
  disabled?: boolean;
}

export function IconButton({ icon, label, onPress, className = '', expanded, disabled = false }: IconButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${className}`}
      aria-label={label}
      aria-expanded={expanded}
      title={label}
      disabled={disabled}
      onClick={onPress}
    >
      <Icon name={icon} />
    </button>
  );
}

interface ToolbarProps {
  label: string;
  className: string;
  children: ComponentChildren;
  role?: 'toolbar' | 'menu';
  onEscape?: () => void;
}

/** A group of buttons that is a single Tab stop; arrow keys move between the buttons (roving tabindex). */
export function Toolbar({ label, className, children, role = 'toolbar', onEscape }: ToolbarProps) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (box.current) setTabStop(box.current);
  });
  return (
    // The buttons take the focus, not the toolbar.
    // biome-ignore lint/a11y: see above
    <div
      ref={box}
      class={className}
      role={role}
      aria-label={label}
      onFocusIn={(event) => {
        if (box.current && event.target instanceof HTMLButtonElement) setTabStop(box.current, event.target);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && onEscape) {
          event.stopPropagation();
          onEscape();
        } else if (box.current) {
          moveFocus(event, box.current);
        }
      }}
    >
      {children}
    </div>
  );
}

function buttonsOf(box: HTMLElement): readonly HTMLButtonElement[] {
  return [...box.querySelectorAll<HTMLButtonElement>('button:not([disabled])')];
}

function setTabStop(box: HTMLElement, current?: HTMLButtonElement): void {
  const buttons = buttonsOf(box);
  const chosen = current ?? buttons.find((button) => button.dataset.stop === 'yes') ?? buttons[0];
  for (const button of buttons) {
    button.tabIndex = button === chosen ? 0 : -1;
    button.dataset.stop = button === chosen ? 'yes' : 'no';
  }
}

function moveFocus(event: KeyboardEvent, box: HTMLElement): void {
  const buttons = buttonsOf(box);
  const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
  if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  const next: Record<string, number> = {
    ArrowRight: at + 1,
    ArrowDown: at + 1,
    ArrowLeft: at - 1,
    ArrowUp: at - 1,
    Home: 0,
    End: buttons.length - 1,
  };
  const to = next[event.key];
  if (to === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  buttons[(to + buttons.length) % buttons.length]?.focus();
}

/** A path whose folder is shortened when space is short; the file name stays. */
export function Path({ uri, folder }: { uri: string; folder: string | undefined }) {
  const path = relative(uri, folder);
  const cut = path.lastIndexOf('/') + 1;
  return (
    <span class="path" title={path}>
      <span class="path-folder">{path.slice(0, cut)}</span>
      <span class="path-name">{path.slice(cut)}</span>
    </span>
  );
}

export function Lines({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="lines">
      {added > 0 && <span class="added">+{added}</span>}
      {removed > 0 && <span class="removed">−{removed}</span>}
    </span>
  );
}

/** Renders the component again only if a property changed. */
export function memo<P extends object>(render: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
      for (const key of keys) if (before[key] !== after[key]) return true;
      return false;
    }
    override render() {
      return h(render, this.props as P & JSX.IntrinsicAttributes);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
