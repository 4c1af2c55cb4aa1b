import { Button } from '../../components/controls/button.js';
import { formatCount } from '../../lib/format.js';
import type { BulkAction } from './bulk-view.js';
import styles from './runs-page.module.css';

interface Props {
  readonly count: number;
  readonly onAct: (action: BulkAction) => void;
  readonly onClear: () => void;
}

/** What can be done to the runs that are chosen; it lies over the page, so that nothing moves. */
export function SelectionBar({ count, onAct, onClear }: Props) {
  if (count === 0) return null;
  return (
    <div className={styles.selection} role="region" aria-label="Selected runs">
      <p aria-live="polite">{formatCount(count)} selected</p>
      <Button kind="danger" onClick={() => onAct('cancel')}>
        Cancel…
      </Button>
      <Button onClick={() => onAct('retry')}>Retry…</Button>
      <Button kind="quiet" aria-label="Clear the selection" onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}
