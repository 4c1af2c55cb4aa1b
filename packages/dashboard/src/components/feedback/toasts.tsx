import { useSyncExternalStore } from 'react';
import { classNames } from '../../lib/class-names.js';
import { Icon } from '../controls/icon.js';
import { IconButton } from '../controls/icon-button.js';
import { dismissToast, readToasts, watchToasts } from './toast-store.js';
import styles from './toasts.module.css';

/** Where messages of `showToast` appear; there is one on the page. */
export function Toasts() {
  const toasts = useSyncExternalStore(watchToasts, readToasts);
  return (
    <div className={styles.region} role="region" aria-label="Messages" aria-live="polite">
      {toasts.map(({ id, kind, text }) => (
        <div key={id} className={classNames(styles.toast, styles[kind])}>
          <Icon name={kind === 'good' ? 'check' : 'warning'} />
          <span className={styles.text}>{text}</span>
          <IconButton label="Dismiss" onClick={() => dismissToast(id)}>
            <Icon name="close" />
          </IconButton>
        </div>
      ))}
    </div>
  );
}
