import { useEffect, useEffectEvent } from 'react';
import { Store } from '../lib/store.js';

/** A key of a page and what it does, for the help. */
export interface Shortcut {
  /** As in `KeyboardEvent.key`: `r`, `ArrowDown`. */
  readonly key: string;
  readonly label: string;
}

/** The shortcuts of the page that is shown. */
export const registeredShortcuts = new Store<readonly Shortcut[]>([]);

/** Whether the key belongs to a control or a dialog instead of the page. */
export function isTaken({ target, ctrlKey, metaKey, altKey, defaultPrevented }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || defaultPrevented) return true;
  if (document.querySelector('dialog[open]') !== null) return true;
  return (
    target instanceof HTMLElement &&
    target.matches('input:not([type=checkbox]), select, textarea, [contenteditable]')
  );
}

/** Calls the function when the key is pressed on the page, and lists it in the help (`?`). */
export function useShortcut(key: string, label: string, onPress: () => void): void {
  const press = useEffectEvent(onPress);
  useEffect(() => {
    const shortcut = { key, label };
    registeredShortcuts.set([...registeredShortcuts.get(), shortcut]);
    const listen = (event: KeyboardEvent): void => {
      if (event.key !== key || isTaken(event)) return;
      event.preventDefault();
      press();
    };
    document.addEventListener('keydown', listen);
    return () => {
      document.removeEventListener('keydown', listen);
      registeredShortcuts.set(registeredShortcuts.get().filter((other) => other !== shortcut));
    };
  }, [key, label]);
}
