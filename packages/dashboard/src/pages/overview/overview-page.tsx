import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { ErrorState } from '../../components/feedback/error-state.js';
import { LiveDot } from '../../components/values/live-dot.js';
import { ResourceBar } from '../../components/values/resource-bar.js';
import { formatCount, formatMb } from '../../lib/format.js';
import { PageHeader } from '../../shell/page-header.js';
import { FirstSteps } from './first-steps.js';
import { OldestPending } from './oldest-pending.js';
import styles from './overview-page.module.css';
import { StateTiles } from './state-tiles.js';
import { ThroughputChart } from './throughput-chart.js';

const WORKER_GROUPS = ['active', 'draining', 'not_claiming', 'stale'] as const;

/** How things stand: runs, the last hour, workers and what they have left. */
export default function OverviewPage() {
  const api = useApi();
  const { data, error, isError, refetch } = useLive({
    queryKey: ['overview'],
    queryFn: ({ signal }) => unwrap(api.GET('/overview', { signal })),
  });
  return (
    <>
      <PageHeader
        title="Overview"
        note={<LiveDot state={isError || data === undefined ? 'waiting' : 'live'} />}
      />
      {data === undefined && isError && <ErrorState error={error} onRetry={() => void refetch()} />}
      {data === undefined && !isError && <div className={styles.skeleton} aria-busy="true" />}
      {data !== undefined && (isUnused(data) ? <FirstSteps /> : <Standing overview={data} />)}
    </>
  );
}

function isUnused({ runs, workers }: Schemas['Overview']): boolean {
  return [...Object.values(runs), ...Object.values(workers)].every((count) => count === 0);
}

function Standing({ overview }: { readonly overview: Schemas['Overview'] }) {
  const { runs, minutes, oldest_pending_at: oldest, workers, capacity, engines } = overview;
  return (
    <div className={styles.page}>
      <StateTiles counts={runs} />
      <Card title="Throughput" note="runs a minute" isWide>
        <ThroughputChart minutes={minutes} />
      </Card>
      <Card title="Oldest pending run">
        <OldestPending since={oldest} pending={runs.PENDING} />
      </Card>
      <Card title="Workers">
        <ul className={styles.workers}>
          {WORKER_GROUPS.map((group) => (
            <li key={group}>
              <Link
                href={`/workers?state=${encodeURIComponent(group.replace('_', ' '))}`}
                className={styles.worker}
                data-group={group}
              >
                <span className={styles.figure}>{formatCount(workers[group])}</span>
                <span>{group.replace('_', ' ')}</span>
              </Link>
            </li>
          ))}
        </ul>
        <p className={styles.hint}>
          {workers.active === 0
            ? 'No worker takes runs now: pending runs wait.'
            : 'Stale: no heartbeat within the worker timeout.'}
        </p>
      </Card>
      <Card title="Capacity" note="of the active workers">
        <div className={styles.capacity}>
          <ResourceBar label="CPU cores" {...capacity.cpu} format={formatCount} hasLabel />
          <ResourceBar label="RAM" {...capacity.ram_mb} format={formatMb} hasLabel />
          <ResourceBar label="GPU memory" {...capacity.vram_mb} format={formatMb} hasLabel />
        </div>
        {engines.length > 0 && (
          <ul className={styles.hint} aria-label="Engines">
            {engines.map(({ name, launchers, pending, running }) => (
              <li key={name}>
                <Link href={`/workers?q=${name}`}>{name}</Link>: {formatCount(pending)} jobs pending,{' '}
                {formatCount(running)} running, by {formatCount(launchers)}{' '}
                {launchers === 1 ? 'launcher' : 'launchers'}
              </li>
            ))}
          </ul>
        )}
      </Card>
    </div>
  );
}

interface CardProps {
  readonly title: string;
  readonly note?: string;
  readonly isWide?: boolean;
  readonly children: ReactNode;
}

function Card({ title, note, isWide = false, children }: CardProps) {
  return (
    <section className={styles.card} data-wide={isWide || undefined}>
      <h2>
        {title} {note !== undefined && <span className={styles.note}>{note}</span>}
      </h2>
      {children}
    </section>
  );
}
