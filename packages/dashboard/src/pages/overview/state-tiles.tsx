import { RUN_STATES } from '@longshore/client/constants';
import { Link } from 'wouter';
import type { Schemas } from '../../api/use-api.js';
import { StateBadge } from '../../components/values/state-badge.js';
import { formatCount } from '../../lib/format.js';
import styles from './overview-page.module.css';

/** Runs by state; each leads to the list of them. */
export function StateTiles({ counts }: { readonly counts: Schemas['RunsByState'] }) {
  return (
    <ul className={styles.tiles} aria-label="Runs by state">
      {RUN_STATES.map((state) => (
        <li key={state}>
          <Link href={`/runs?state=${state}`} className={styles.tile}>
            <StateBadge state={state} />
            <span className={styles.count}>{formatCount(counts[state])}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
