import { Button } from '../controls/button.js';
import { Icon } from '../controls/icon.js';
import styles from './pager.module.css';

interface Props {
  /** What is paged, such as `runs`. */
  readonly label: string;
  /** Undefined when there is nothing before. */
  readonly onPrevious: (() => void) | undefined;
  /** Undefined when there is nothing behind. */
  readonly onNext: (() => void) | undefined;
  /** What is shown now, such as `50 runs`. */
  readonly note?: string;
}

/** Steps through pages that follow each other by cursors. */
export function Pager({ label, onPrevious, onNext, note }: Props) {
  return (
    <nav className={styles.pager} aria-label={`Pages of ${label}`}>
      <span className={styles.note}>{note}</span>
      <Button size="small" disabled={onPrevious === undefined} onClick={onPrevious}>
        <Icon name="chevron-left" /> Previous
      </Button>
      <Button size="small" disabled={onNext === undefined} onClick={onNext}>
        Next <Icon name="chevron-right" />
      </Button>
    </nav>
  );
}
