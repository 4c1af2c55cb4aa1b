import { useSyncExternalStore } from 'react';

/** What a person wants: a fixed theme, or the one of the system. */
export type Theme = 'system' | 'light' | 'dark';

const NAME = 'longshore.theme';
const listeners = new Set<() => void>();

function read(): Theme {
  const { theme } = document.documentElement.dataset;
  return theme === 'light' || theme === 'dark' ? theme : 'system';
}

/** Shows the theme and keeps it for later visits; `public/theme.js` sets it before the first paint. */
export function setTheme(theme: Theme): void {
  const { dataset } = document.documentElement;
  if (theme === 'system') delete dataset['theme'];
  else dataset['theme'] = theme;
  try {
    if (theme === 'system') localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, theme);
  } catch {
    // Storage is switched off: the theme lasts until the page is left.
  }
  for (const listener of listeners) listener();
}

/** The theme that is set. */
export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, read);
}
