import { useEffect, useEffectEvent, useRef, useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { Icon, IconButton } from '../components/controls/icon.js';
import { Dialog } from '../components/feedback/dialog.js';
import { useStore } from '../lib/store.js';
import { ROUTES } from '../routes.js';
import { useSession } from '../session/session-context.js';
import { Logo } from './logo.js';
import { PauseBanner } from './pause-banner.js';
import navigationStyles from './navigation.module.css';
import styles from './shell.module.css';
import shortcutsHelpStyles from './shortcuts-help.module.css';
import { isTaken, registeredShortcuts } from './shortcuts.js';
import { ThemeToggle } from './theme.js';

/** The frame around every page: navigation, who is signed in, theme, help. */
export function Shell({ children }: { readonly children: ReactNode }) {
  const { name, signOut } = useSession();
  const [isHelpOpen, setHelpOpen] = useState(false);
  useShellShortcuts(() => setHelpOpen(true));
  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#main">
        Skip to the page
      </a>
      <header className={styles.bar}>
        <Link href="/" className={styles.home}>
          <Logo />
        </Link>
        <Navigation />
        <div className={styles.tools}>
          <span className={styles.who} title={`Signed in with the key '${name}'`}>
            <Icon name="keys" />
            <span className="truncate">{name}</span>
          </span>
          <ThemeToggle />
          <IconButton label="Keyboard shortcuts (?)" icon="help" onClick={() => setHelpOpen(true)} />
          <IconButton label="Sign out" icon="sign-out" onClick={signOut} />
        </div>
      </header>
      <main id="main" className={styles.main} tabIndex={-1}>
        <PauseBanner />
        {children}
      </main>
      {isHelpOpen && <ShortcutsHelp onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

/** Links to the pages that the key may see. */
function Navigation() {
  const { may } = useSession();
  const [location] = useLocation();
  return (
    <nav aria-label="Pages">
      <ul className={navigationStyles.list}>
        {ROUTES.map(({ path, title, scopes, nav }) =>
          nav === undefined || !may(...scopes) ? null : (
            <li key={path}>
              <Link
                href={path}
                className={navigationStyles.link}
                aria-current={isWithin(location, path) ? 'page' : undefined}
              >
                <Icon name={nav.icon} />
                {title}
              </Link>
            </li>
          ),
        )}
      </ul>
    </nav>
  );
}

function isWithin(location: string, path: string): boolean {
  return location === path || (path !== '/' && location.startsWith(`${path}/`));
}

const EVERYWHERE: readonly (readonly [keys: readonly string[], label: string])[] = [
  [['/'], 'Search on this page'],
  [['↑', '↓'], 'Previous and next row of a table'],
  [['Enter'], 'Open the row'],
  [['Esc'], 'Close a dialog, empty a search'],
  [['?'], 'This help'],
];

/** Lists the keys that work here. */
function ShortcutsHelp({ onClose }: { readonly onClose: () => void }) {
  const { may } = useSession();
  const ofPage = useStore(registeredShortcuts);
  const pages = ROUTES.flatMap(({ nav, title, scopes }) =>
    nav !== undefined && may(...scopes) ? [[['g', nav.shortcut], `Go to ${title}`] as const] : [],
  );
  const own = ofPage.map(({ key, label }) => [[key], label] as const);
  return (
    <Dialog onClose={onClose} title="Keyboard shortcuts">
      <dl className={shortcutsHelpStyles.list}>
        {[...own, ...EVERYWHERE, ...pages].map(([keys, label]) => (
          <div key={label} className={shortcutsHelpStyles.row}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** How long after `g` the second letter counts, in milliseconds. */
const SEQUENCE_MS = 1500;

/** The keys that work on every page: `?` help, `/` search, `g` and a letter to go to a page. */
function useShellShortcuts(openHelp: () => void): void {
  const { may } = useSession();
  const [, navigate] = useLocation();
  const goAt = useRef(Number.NEGATIVE_INFINITY);

  const press = useEffectEvent((event: KeyboardEvent) => {
    if (isTaken(event)) return;
    const isSecond = event.timeStamp - goAt.current < SEQUENCE_MS;
    goAt.current = Number.NEGATIVE_INFINITY;
    if (isSecond) {
      const route = ROUTES.find(({ nav, scopes }) => nav?.shortcut === event.key && may(...scopes));
      if (route === undefined) return;
      event.preventDefault();
      navigate(route.path);
    } else if (event.key === 'g') {
      goAt.current = event.timeStamp;
    } else if (event.key === '?') {
      event.preventDefault();
      openHelp();
    } else if (event.key === '/') {
      const search = document.querySelector<HTMLInputElement>('[data-page-search]');
      if (search === null) return;
      event.preventDefault();
      search.focus();
      search.select();
    }
  });
  useEffect(() => {
    // Behind the listeners of pages, whose keys come first.
    const listen = (event: KeyboardEvent): void => press(event);
    window.addEventListener('keydown', listen);
    return () => window.removeEventListener('keydown', listen);
  }, []);
}
