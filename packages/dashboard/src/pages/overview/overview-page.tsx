import { RUN_STATES } from '@longshore/client/constants';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, useLive, type Schemas } from '../../api/use-api.js';
import { ErrorState } from '../../components/feedback/empty-state.js';
import { StateBadge } from '../../components/values/badge.js';
import { LiveDot } from '../../components/values/live-dot.js';
import { ResourceBar } from '../../components/values/resource-bar.js';
import { useNow } from '../../lib/clock.js';
import { formatCount, formatDuration, formatExact, formatMb } from '../../lib/format.js';
import { PageHeader } from '../../shell/page-header.js';
import { Attention } from './attention.js';
import { FirstSteps } from './first-steps.js';
import styles from './overview-page.module.css';
import { ThroughputChart } from './throughput-chart.js';

const WORKER_GROUPS = ['active', 'draining', 'not_claiming', 'away', 'stale'] as const;

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
      <Card title="Needs attention">
        <Attention overview={overview} />
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

/** Runs by state; each leads to the list of them. */
function StateTiles({ counts }: { readonly counts: Schemas['RunsByState'] }) {
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

interface Props {
  /** ISO 8601; null when no run is pending. */
  readonly since: string | null;
  readonly pending: number;
}

/** How long the run that has waited longest has waited, leading to it. */
function OldestPending({ since, pending }: Props) {
  const now = useNow();
  if (since === null) {
    return (
      <>
        <p className={styles.figure}>–</p>
        <p className={styles.hint}>No run is pending.</p>
      </>
    );
  }
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  // The list is newest first: up to the second of the oldest one it begins with it.
  const href = `/runs?state=PENDING&to=${encodeURIComponent(`${since.slice(0, 19)}Z`)}`;
  return (
    <>
      <p>
        <Link href={href} className={styles.figure} title={`Created ${formatExact(since)}`}>
          {formatDuration(seconds * 1000)}
        </Link>
      </p>
      <p className={styles.hint}>
        <Link href="/runs?state=PENDING">{formatCount(pending)} pending</Link>
      </p>
    </>
  );
}
