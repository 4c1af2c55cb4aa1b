import { useState, type ReactNode } from 'react';
import { Link } from 'wouter';
import { Icon, IconButton } from '../components/controls/icon.js';
import { useSession } from '../session/session-context.js';
import { Logo } from './logo.js';
import { Navigation } from './navigation.js';
import styles from './shell.module.css';
import { ShortcutsHelp } from './shortcuts-help.js';
import { ThemeToggle } from './theme.js';
import { useShellShortcuts } from './use-shell-shortcuts.js';

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
        {children}
      </main>
      <ShortcutsHelp isOpen={isHelpOpen} onClose={() => setHelpOpen(false)} />
    </div>
  );
}
