import { IconButton, type IconName } from '../components/controls/icon.js';
import { Store, useStore } from '../lib/store.js';

/** What a person wants: a fixed theme, or the one of the system. */
type Theme = 'system' | 'light' | 'dark';

const NAME = 'longshore.theme';
const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };
const ICONS: Readonly<Record<Theme, IconName>> = { system: 'monitor', light: 'sun', dark: 'moon' };

const shown = new Store(read());

function read(): Theme {
  const { theme } = document.documentElement.dataset;
  return theme === 'light' || theme === 'dark' ? theme : 'system';
}

/** Shows the theme and keeps it for later visits; `public/theme.js` sets it before the first paint. */
function setTheme(theme: Theme): void {
  const { dataset } = document.documentElement;
  if (theme === 'system') delete dataset['theme'];
  else dataset['theme'] = theme;
  try {
    if (theme === 'system') localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, theme);
  } catch {
    // Storage is switched off: the theme lasts until the page is left.
  }
  shown.set(theme);
}

/** Goes from the system's theme to light to dark. */
export function ThemeToggle() {
  const theme = useStore(shown);
  return (
    <IconButton
      label={`Theme: ${theme}. Change to ${NEXT[theme]}`}
      icon={ICONS[theme]}
      onClick={() => setTheme(NEXT[theme])}
    />
  );
}
