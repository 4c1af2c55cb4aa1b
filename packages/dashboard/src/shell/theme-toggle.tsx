import { Icon, type IconName } from '../components/controls/icon.js';
import { IconButton } from '../components/controls/icon-button.js';
import { setTheme, useTheme, type Theme } from './theme.js';

const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };
const ICONS: Readonly<Record<Theme, IconName>> = { system: 'monitor', light: 'sun', dark: 'moon' };

/** Goes from the system's theme to light to dark. */
export function ThemeToggle() {
  const theme = useTheme();
  return (
    <IconButton label={`Theme: ${theme}. Change to ${NEXT[theme]}`} onClick={() => setTheme(NEXT[theme])}>
      <Icon name={ICONS[theme]} />
    </IconButton>
  );
}
