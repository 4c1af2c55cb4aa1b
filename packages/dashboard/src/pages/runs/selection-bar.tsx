import { describeError } from '../../api/answers.js';
import { Button } from '../../components/controls/button.js';
import { formatCount } from '../../lib/format.js';
import type { MatchingAction } from './matching-dialog.js';
import styles from './runs-page.module.css';

/** All runs that match the filters. */
export interface Matching {
  readonly isChosen: boolean;
  /** undefined: not known yet. */
  readonly count: number | undefined;
  readonly error: Error | null;
}

interface Props {
  /** Of the runs that are chosen one by one. */
  readonly count: number;
  readonly matching: Matching;
  readonly onChooseMatching: () => void;
  readonly onAct: (action: MatchingAction) => void;
  readonly onClear: () => void;
}

/** What can be done to the runs that are chosen; it lies over the page, so that nothing moves. */
export function SelectionBar({ count, matching, onChooseMatching, onAct, onClear }: Props) {
  if (count === 0) return null;
  const isAll = matching.isChosen;
  const isReady = !isAll || matching.count !== undefined;
  return (
    <div className={styles.selection} role="region" aria-label="Selected runs">
      <p aria-live="polite">{isAll ? textOf(matching) : `${formatCount(count)} selected`}</p>
      {!isAll && (
        <Button kind="quiet" onClick={onChooseMatching}>
          Select all that match
        </Button>
      )}
      <Button kind="danger" disabled={!isReady} onClick={() => onAct('cancel')}>
        Cancel…
      </Button>
      <Button disabled={!isReady} onClick={() => onAct('retry')}>
        Retry…
      </Button>
      {isAll && (
        <Button disabled={!isReady} onClick={() => onAct('labels')}>
          Labels…
        </Button>
      )}
      <Button kind="quiet" aria-label="Clear the selection" onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}

function textOf({ count, error }: Matching): string {
  if (error !== null) return describeError(error);
  return count === undefined ? 'Counting all that match…' : `All ${formatCount(count)} that match selected`;
}
