import { Dialog } from '../components/feedback/dialog.js';
import { ROUTES } from '../routes.js';
import { useSession } from '../session/session-context.js';
import styles from './shortcuts-help.module.css';
import { useStore } from '../lib/store.js';
import { registeredShortcuts } from './shortcuts.js';

const EVERYWHERE: readonly (readonly [keys: readonly string[], label: string])[] = [
  [['/'], 'Search on this page'],
  [['↑', '↓'], 'Previous and next row of a table'],
  [['Enter'], 'Open the row'],
  [['Esc'], 'Close a dialog, empty a search'],
  [['?'], 'This help'],
];

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

/** Lists the keys that work here. */
export function ShortcutsHelp({ isOpen, onClose }: Props) {
  const { may } = useSession();
  const ofPage = useStore(registeredShortcuts);
  const pages = ROUTES.flatMap(({ nav, title, scopes }) =>
    nav !== undefined && may(...scopes) ? [[['g', nav.shortcut], `Go to ${title}`] as const] : [],
  );
  const own = ofPage.map(({ key, label }) => [[key], label] as const);
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title="Keyboard shortcuts">
      <dl className={styles.list}>
        {[...own, ...EVERYWHERE, ...pages].map(([keys, label]) => (
          <div key={label} className={styles.row}>
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
