import { plainText } from '@longshore/common/shown-text';
import type { Run } from '../../api/use-api.js';
import { StateBadge } from '../../components/values/badge.js';
import { Duration, Time } from '../../components/values/time.js';
import { classNames } from '../../lib/class-names.js';
import { formatCount, formatMb } from '../../lib/format.js';
import styles from './attempt-list.module.css';
import { isEnded, type Attempt } from './run-view.js';

/** Attempts shown side by side; a run may have a thousand. */
const MOST_SHOWN = 50;

interface Props {
  readonly run: Run;
  /** Undefined until they are there. */
  readonly attempts: readonly Attempt[] | undefined;
  readonly chosen: number;
  readonly onChoose: (attempt: number) => void;
}

/** The attempts of a run side by side, the newest first; the chosen one is what the log and the timeline show. */
export function AttemptList({ run, attempts, chosen, onChoose }: Props) {
  const earlier = (attempts ?? []).filter(({ attempt }) => attempt < run.current_attempt).toReversed();
  const shown = earlier.slice(0, MOST_SHOWN);
  const grows = run.retry_policy.grow !== undefined;
  return (
    <section aria-label="Attempts" className={styles.section}>
      <ul className={styles.list}>
        {[{ ...run, attempt: run.current_attempt }, ...shown].map((view) => (
          <Card
            key={view.attempt}
            view={view}
            grows={grows}
            isChosen={chosen === view.attempt}
            onChoose={onChoose}
          />
        ))}
      </ul>
      {earlier.length > shown.length && (
        <p className={styles.more}>and {formatCount(earlier.length - shown.length)} earlier attempts</p>
      )}
    </section>
  );
}

interface CardProps {
  readonly view: Pick<Attempt, 'attempt' | 'state' | 'execution_summary' | 'constraints'>;
  /** Whether attempts may have different amounts. */
  readonly grows: boolean;
  readonly isChosen: boolean;
  readonly onChoose: (attempt: number) => void;
}

function Card({ view, grows, isChosen, onChoose }: CardProps) {
  const { attempt, state, execution_summary: summary, constraints } = view;
  const error = summary.error_message && plainText(summary.error_message);
  return (
    <li>
      <button
        type="button"
        className={classNames(styles.card, isChosen && styles.chosen)}
        aria-pressed={isChosen}
        onClick={() => onChoose(attempt)}
      >
        <span className={styles.head}>
          <span className={styles.number}>Attempt {attempt}</span>
          <StateBadge state={state} />
        </span>
        <span className={styles.line}>
          <Duration
            from={summary.started_at}
            to={isEnded({ state }) ? (summary.finished_at ?? summary.started_at) : null}
          />
          {summary.started_at !== undefined && (
            <>
              {' '}
              · <Time at={summary.started_at} />
            </>
          )}
          {summary.worker_id !== undefined && ` · ${summary.worker_id}`}
          {grows && ` · ${formatMb(constraints.ram_mb)} RAM`}
        </span>
        <span className={classNames(styles.line, styles.error)} title={error}>
          {error ?? '\u00A0'}
        </span>
      </button>
    </li>
  );
}
