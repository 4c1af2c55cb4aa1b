import type { ReactNode } from 'react';

/** A short message about something that was done. */
export interface Toast {
  readonly id: number;
  readonly kind: 'good' | 'bad';
  /** With a link to what it names. */
  readonly text: ReactNode;
}

/** Time after which a message of success closes, in milliseconds; messages of failure stay until the user closes them. */
const SHOWN_MS = 5000;
const MOST = 4;

let toasts: readonly Toast[] = [];
let lastId = 0;
const listeners = new Set<() => void>();

function change(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

/** Shows a message at the edge of the page. */
export function showToast(kind: Toast['kind'], text: ReactNode): void {
  lastId += 1;
  const toast = { id: lastId, kind, text };
  change([...toasts, toast].slice(-MOST));
  if (kind === 'good') setTimeout(() => dismissToast(toast.id), SHOWN_MS);
}

export function dismissToast(id: number): void {
  change(toasts.filter((toast) => toast.id !== id));
}

export function readToasts(): readonly Toast[] {
  return toasts;
}

export function watchToasts(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
