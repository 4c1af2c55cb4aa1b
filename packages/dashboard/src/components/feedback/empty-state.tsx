import type { ReactNode } from 'react';
import { Icon, type IconName } from '../controls/icon.js';
import styles from './empty-state.module.css';

interface Props {
  readonly icon?: IconName;
  readonly title: string;
  /** Why there is nothing, and what to do about it. */
  readonly children?: ReactNode;
  readonly action?: ReactNode;
}

/** Says that there is nothing here, and helps on. */
export function EmptyState({ icon = 'search', title, children, action }: Props) {
  return (
    <div className={styles.state}>
      <Icon name={icon} />
      <h2>{title}</h2>
      {children !== undefined && <div className={styles.text}>{children}</div>}
      {action}
    </div>
  );
}
