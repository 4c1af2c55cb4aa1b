import type { ReactNode } from 'react';
import styles from './page-header.module.css';

interface Props {
  readonly title: ReactNode;
  /** One line beside the title: figures, state, whether it is live. */
  readonly note?: ReactNode;
  /** Buttons at the end. */
  readonly actions?: ReactNode;
}

/** The first line of a page. */
export function PageHeader({ title, note, actions }: Props) {
  return (
    <header className={styles.header}>
      <h1>{title}</h1>
      {note !== undefined && <div className={styles.note}>{note}</div>}
      {actions !== undefined && <div className={styles.actions}>{actions}</div>}
    </header>
  );
}
