/** The one place where the view's state lives, and its line to the host. */

import { signal } from '@preact/signals';
import type { FromView } from '../messages.ts';
import { type Local, reduce } from './reduce.ts';
import { INITIAL, type State } from './state.ts';

interface VsCodeApi {
  postMessage(message: FromView): void;
  getState(): unknown;
  setState(state: unknown): void;
}

declare global {
  function acquireVsCodeApi(): VsCodeApi;
}

export const vscode = acquireVsCodeApi();
export const state = signal<State>(INITIAL);

export function post(message: FromView): void {
  vscode.postMessage(message);
}

export function dispatch(action: Parameters<typeof reduce>[1] | Local): void {
  state.value = reduce(state.value, action);
  if (state.value.gap && !reloading) {
    reloading = true;
    post({ type: 'reload' });
  } else if (!state.value.gap) {
    reloading = false;
  }
}

let reloading = false;

let ids = 0;
const run = Math.random().toString(36).slice(2, 8);

/** A name for a prompt, new in this view and unlikely in any other. */
export function newId(prefix: string): string {
  ids += 1;
  return `${prefix}-${run}-${ids}`;
}
