import { PENDING_REASONS, type PendingReason } from '@longshore/client/constants';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { serviceNow } from '../../lib/clock.js';
import { countRuns, formatCount } from '../../lib/format.js';
import styles from './overview-page.module.css';

/** Reasons for which runs stay pending until a person or an autoscaler does something. */
const STUCK = [
  'no_worker',
  'capability',
  'selector',
  'resources',
] as const satisfies readonly PendingReason[];

/** Failed runs of a definition that are worth a look. */
const MANY_FAILURES = 3;

const HOUR_MS = 3_600_000;
const EVERY_MS = 30_000;

/** What does not mend itself: runs that no worker can take, workers that do not claim, definitions whose runs fail. */
export function Attention({ overview }: { readonly overview: Schemas['Overview'] }) {
  const { reasons, workers, minutes } = overview;
  const failed = minutes.reduce((sum, minute) => sum + minute.failed, 0);
  const failing = useFailingDefinitions(failed >= MANY_FAILURES);
  const stuck = STUCK.filter((reason) => reasons[reason] > 0);
  if (stuck.length === 0 && workers.not_claiming === 0 && failing.length === 0)
    return <p className={styles.hint}>Nothing.</p>;
  return (
    <ul className={styles.attention}>
      {stuck.map((reason) => (
        <li key={reason}>
          <Link href="/runs?state=PENDING">{countRuns(reasons[reason])} cannot start</Link>:{' '}
          {PENDING_REASONS[reason]}.
        </li>
      ))}
      {workers.not_claiming > 0 && (
        <li>
          <Link href="/workers?state=not%20claiming">
            {workers.not_claiming === 1 ? '1 worker does' : `${formatCount(workers.not_claiming)} workers do`}{' '}
            not claim
          </Link>
          , and says why.
        </li>
      )}
      {failing.map(([definition, count]) => (
        <li key={definition}>
          <Link href={`/runs?state=FAILED&op_definition=${encodeURIComponent(definition)}`}>
            {countRuns(count)} of {definition} failed
          </Link>{' '}
          in the last hour.
        </li>
      ))}
    </ul>
  );
}

/** Definitions of which several of the newest 100 runs that failed in the last hour are, those with the most first. */
function useFailingDefinitions(isOn: boolean): readonly (readonly [definition: string, count: number])[] {
  const api = useApi();
  const { data } = useQuery({
    queryKey: ['failed-runs'],
    queryFn: ({ signal }) => {
      const since = Math.floor((serviceNow() - HOUR_MS) / 1000);
      const query = {
        state: 'FAILED',
        'ended[gte]': since,
        limit: 100,
        include_events: false,
      } as const;
      return unwrap(api.GET('/runs', { params: { query }, signal }));
    },
    enabled: isOn,
    refetchInterval: EVERY_MS,
  });
  const counts = new Map<string, number>();
  for (const { op_definition: definition } of (isOn && data?.data) || [])
    if (definition !== null) counts.set(definition, (counts.get(definition) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= MANY_FAILURES).toSorted(([, a], [, b]) => b - a);
}
