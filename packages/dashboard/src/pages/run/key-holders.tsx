import { Link } from 'wouter';
import { RunLink } from '../../components/values/named-links.js';
import { formatCount } from '../../lib/format.js';
import styles from './run-page.module.css';
import type { Run } from './run-view.js';
import { useExplanation } from './use-run.js';

const MOST_SHOWN = 5;

interface Props {
  readonly run: Run;
  readonly concurrency: NonNullable<Run['concurrency']>;
}

/** The other runs that execute with the concurrency key of this one. One line, whatever it says. */
export function KeyHolders({ run, concurrency: { key, limit } }: Props) {
  const use = useExplanation(run)?.concurrency;
  const holders = use?.holders ?? [];
  const others = `/runs?concurrency_key=${encodeURIComponent(key)}`;
  return (
    <p className={styles.holders}>
      The concurrency key <Link href={others}>{key}</Link> allows {formatCount(limit)}{' '}
      {limit === 1 ? 'run' : 'runs'} at a time.{' '}
      {holders.length === 0 ? 'No other run with it executes.' : 'Others that execute: '}
      {holders.slice(0, MOST_SHOWN).map(({ run_id: id }) => (
        <span key={id} className={styles.holder}>
          <RunLink id={id} />
        </span>
      ))}
      {holders.length > MOST_SHOWN && <Link href={`${others}&state=RUNNING`}>and more</Link>}
    </p>
  );
}
