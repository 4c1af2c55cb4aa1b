import type { ReactNode } from 'react';
import { Button } from '../controls/button.js';
import styles from './filter-bar.module.css';

interface Props {
  /** What is filtered, such as `Filter workers`. */
  readonly label: string;
  /** Whether any filter is set. */
  readonly isActive: boolean;
  readonly onClear: () => void;
  /** The controls, in a row as long as there is room. */
  readonly children: ReactNode;
}

/** The filters of a list. */
export function FilterBar({ label, isActive, onClear, children }: Props) {
  return (
    <div role="search" aria-label={label} className={styles.bar}>
      {children}
      <Button kind="quiet" disabled={!isActive} onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}
