const NAME = 'longshore.key';

/** The key that this tab was signed in with, if any. It lives as long as the tab and is seen by no other. */
export function readStoredKey(): string | null {
  try {
    return sessionStorage.getItem(NAME);
  } catch {
    return null;
  }
}

/** Keeps the key for reloads of this tab; null forgets it. */
export function storeKey(apiKey: string | null): void {
  try {
    if (apiKey === null) sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, apiKey);
  } catch {
    // Storage is switched off: the key lasts until the page is left.
  }
}
