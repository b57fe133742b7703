/** Small parts that every other part is made of. */

import { Component, type ComponentChildren, type FunctionComponent, h, type JSX } from 'preact';
import { ICONS, type IconName } from '../icons.ts';
import { relative } from '../words.ts';

export function Icon({ name, spin = false }: { name: IconName; spin?: boolean }): JSX.Element {
  const glyph = String.fromCodePoint(Number.parseInt(ICONS[name], 16));
  return (
    <span class={spin ? 'icon spin' : 'icon'} aria-hidden="true">
      {glyph}
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

/** A path that gives way in its middle: the folder shrinks, the name stays. */
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

/** Renders again only when a property is another value. */
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
