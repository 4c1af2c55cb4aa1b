import { createElement, Fragment, type ReactNode } from 'react';
import { classNames } from '../../lib/class-names.js';
import { Store, useStore } from '../../lib/store.js';
import { Icon, IconButton } from '../controls/icon.js';
import styles from './toasts.module.css';

/** A short message about something that was done. */
interface Toast {
  readonly id: number;
  readonly kind: 'good' | 'bad';
  readonly text: ReactNode;
}

/** Time after which a message of success closes, in milliseconds; messages of failure stay until the user closes them. */
const SHOWN_MS = 5000;
const MOST = 4;

const shown = new Store<readonly Toast[]>([]);
let lastId = 0;

/** Shows a message at the edge of the page. @param parts texts, and links to what they name */
export function showToast(kind: Toast['kind'], ...parts: readonly ReactNode[]): void {
  lastId += 1;
  const toast = { id: lastId, kind, text: createElement(Fragment, null, ...parts) };
  shown.set([...shown.get(), toast].slice(-MOST));
  if (kind === 'good') setTimeout(() => dismiss(toast.id), SHOWN_MS);
}

function dismiss(id: number): void {
  shown.set(shown.get().filter((toast) => toast.id !== id));
}

/** Where messages of `showToast` appear; there is one on the page. */
export function Toasts() {
  const toasts = useStore(shown);
  return (
    <div className={styles.region} role="region" aria-label="Messages" aria-live="polite">
      {toasts.map(({ id, kind, text }) => (
        <div key={id} className={classNames(styles.toast, styles[kind])}>
          <Icon name={kind === 'good' ? 'check' : 'warning'} />
          <span className={styles.text}>{text}</span>
          <IconButton label="Dismiss" icon="close" onClick={() => dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
