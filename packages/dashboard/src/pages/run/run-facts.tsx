import { describeGrowth, describeNeeds } from '@longshore/client/needs';
import { Link } from 'wouter';
import type { Run } from '../../api/use-api.js';
import { Fact } from '../../components/values/facts.js';
import { RunLink } from '../../components/values/named-links.js';
import { Duration, Time } from '../../components/values/time.js';
import { formatCount, formatDuration, formatExact, formatMb } from '../../lib/format.js';
import styles from './run-facts.module.css';
import runPageStyles from './run-page.module.css';
import { attemptText, isEnded } from './run-view.js';
import { useExplanation } from './use-run.js';

/** What there is to know about a run, in a line or two. */
export function RunFacts({ run }: { readonly run: Run }) {
  const { execution_summary: summary, retry_policy: policy, timeouts, event_delivery: delivery } = run;
  const last = isEnded(run) ? (summary.finished_at ?? run.updatedAt) : null;
  return (
    <dl className={styles.facts}>
      <Fact name="Worker">
        <PageLink page="/workers" query={{ worker: summary.worker_id }} text={summary.worker_id} />
      </Fact>
      <Fact name="Created">
        <Time at={run.createdAt} />
      </Fact>
      <Fact name="Queued for">
        {summary.queued_ms === undefined ? (
          <span className="muted">
            {summary.assigned_at === undefined && !isEnded(run) ? 'waiting' : '–'}
          </span>
        ) : (
          <span title={`${formatCount(summary.queued_ms)} ms`}>{formatDuration(summary.queued_ms)}</span>
        )}
      </Fact>
      <Fact name="Started">
        <Time at={summary.started_at} absent="not yet" />
      </Fact>
      <Fact name="Duration">
        <span title={summary.duration_ms === undefined ? '' : `${formatCount(summary.duration_ms)} ms`}>
          <Duration from={summary.started_at} to={last} />
        </span>
      </Fact>
      <Fact name="Finished">
        <Time at={summary.finished_at} absent={isEnded(run) ? '–' : 'not yet'} />
      </Fact>
      {summary.cancel_reason !== undefined && <Fact name="Cancelled because">{summary.cancel_reason}</Fact>}
      <Fact name="Attempt">{attemptText(run)}</Fact>
      <Fact name="Back-off">
        {policy.backoff_s === undefined
          ? 'none'
          : `${policy.backoff_s} s, doubled${policy.max_backoff_s === undefined ? '' : `, ${policy.max_backoff_s} s at most`}`}
      </Fact>
      <Fact name="Priority">{formatCount(run.priority)}</Fact>
      <Fact name="Definition">
        <PageLink
          page={`/definitions/${encodeURIComponent(run.op_definition ?? '')}`}
          query={{ version: run.op_definition_version ?? undefined }}
          text={
            run.op_definition === null ? undefined : `${run.op_definition} ${run.op_definition_version ?? ''}`
          }
        />
      </Fact>
      {run.created_by !== null && (
        <Fact name="Created by">
          <PageLink
            page="/runs"
            query={{ created_by: run.created_by.key_id }}
            text={run.created_by.key_name}
          />
        </Fact>
      )}
      {run.schedule !== null && (
        <Fact name="Schedule">
          <PageLink
            page={`/schedules/${encodeURIComponent(run.schedule.id)}`}
            query={{}}
            text={run.schedule.id}
          />{' '}
          for {run.schedule.time}
        </Fact>
      )}
      {run.group !== null && (
        <Fact name="Group">
          <PageLink
            page={`/groups/${encodeURIComponent(run.group.id)}`}
            query={{}}
            text={run.array === null ? (run.group.ref ?? run.group.id) : indexText(run.array)}
          />
        </Fact>
      )}
      {run.rerun_of !== null && (
        <Fact name="Rerun of">
          <RunLink id={run.rerun_of} />
        </Fact>
      )}
      {run.reruns > 0 && (
        <Fact name="Reruns">
          <PageLink page="/runs" query={{ rerun_of: run.id }} text={formatCount(run.reruns)} />
        </Fact>
      )}
      <Fact name="Topic">
        <PageLink page="/feed" query={{ topic: delivery?.topic }} text={delivery?.topic} />
      </Fact>
      <Fact name="Needs">
        <span title={needsOf(run)}>{needsOf(run)}</span>
      </Fact>
      {policy.grow && (
        <Fact
          name={summary.asked_ram_mb === undefined ? 'Grows' : `Grew from ${formatMb(summary.asked_ram_mb)}`}
        >
          <span title={describeGrowth(policy.grow, formatMb)}>{describeGrowth(policy.grow, formatMb)}</span>
        </Fact>
      )}
      {Object.entries(run.labels).map(([key, value]) => (
        <Fact key={key} name={`Label ${key}`}>
          <PageLink page="/runs" query={{ label: `${key}=${value}` }} text={value} />
        </Fact>
      ))}
      {run.selector.length > 0 && (
        <Fact name="Selector">
          <PageLink
            page="/runs"
            query={{ selector: run.selector.join(',') }}
            text={run.selector.join(', ')}
          />
        </Fact>
      )}
      {run.concurrency !== null && (
        <Fact name={`Concurrency key, limit ${formatCount(run.concurrency.limit)}`}>
          <PageLink
            page="/runs"
            query={{ concurrency_key: run.concurrency.key }}
            text={run.concurrency.key}
          />
        </Fact>
      )}
      {run.start_at && (
        <Fact name="Starts at">
          <Time at={run.start_at} />
        </Fact>
      )}
      {policy.retry_on && (
        <Fact name="Retried after">
          <span title={policy.retry_on.join(', ')}>{policy.retry_on.join(', ') || 'no failure'}</span>
        </Fact>
      )}
      {run.mounts.map((mount) => (
        <Fact key={mount.path} name={`Mount ${mount.path}`}>
          <span title={mountText(mount)}>{mountText(mount)}</span>
        </Fact>
      ))}
      <Fact name="Must start within">{budget(timeouts?.start_within_s)}</Fact>
      <Fact name="May run for">{budget(timeouts?.attempt_s)}</Fact>
      <Fact name="Changed">
        <time dateTime={run.updatedAt} title={formatExact(run.updatedAt)}>
          <Time at={run.updatedAt} />
        </time>
      </Fact>
    </dl>
  );
}

interface PageLinkProps {
  readonly page: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Undefined: there is nothing to link to. */
  readonly text: string | undefined;
}

function PageLink({ page, query, text }: PageLinkProps) {
  if (text === undefined) return <span className="muted">–</span>;
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  return (
    <Link href={search.size === 0 ? page : `${page}?${search}`} title={text}>
      {text}
    </Link>
  );
}

function indexText({ index, size }: NonNullable<Run['array']>): string {
  return `index ${formatCount(index)} of ${formatCount(size)}`;
}

function budget(seconds: number | undefined): string {
  return seconds === undefined ? 'no limit' : formatDuration(seconds * 1000);
}

function mountText({
  volume,
  sub_path: subPath,
  read_only: readOnly,
  scratch_mb: scratch,
}: Run['mounts'][number]): string {
  if (volume === undefined) return `empty, ${formatMb(scratch ?? 0)}`;
  return `${volume}${subPath === undefined ? '' : `/${subPath}`}${readOnly === true ? ', read-only' : ''}`;
}

function needsOf({ constraints }: Run): string {
  return describeNeeds(constraints, formatMb).join(', ') || 'nothing special';
}

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
    <p className={runPageStyles.holders}>
      The concurrency key <Link href={others}>{key}</Link> allows {formatCount(limit)}{' '}
      {limit === 1 ? 'run' : 'runs'} at a time.{' '}
      {holders.length === 0 ? 'No other run with it executes.' : 'Others that execute: '}
      {holders.slice(0, MOST_SHOWN).map(({ run_id: id }) => (
        <span key={id} className={runPageStyles.holder}>
          <RunLink id={id} />
        </span>
      ))}
      {holders.length > MOST_SHOWN && <Link href={`${others}&state=RUNNING`}>and more</Link>}
    </p>
  );
}
