import { Fragment } from 'react';
import { Link } from 'wouter';
import { shortId } from '../../lib/format.js';

/** A run by its short id, leading to its page. */
export function RunLink({ id }: { readonly id: string }) {
  return (
    <Link href={`/runs/${encodeURIComponent(id)}`} title={id}>
      <code>{shortId(id)}</code>
    </Link>
  );
}

/** A worker, leading to its details. */
export function WorkerLink({ id }: { readonly id: string }) {
  return <Link href={`/workers?worker=${encodeURIComponent(id)}`}>{id}</Link>;
}

interface DefinitionLinkProps {
  readonly name: string;
  readonly version: string;
}

/** A version of a definition, leading to its page. */
export function DefinitionLink({ name, version }: DefinitionLinkProps) {
  const place = `/definitions/${encodeURIComponent(name)}?version=${encodeURIComponent(version)}`;
  return (
    <Link href={place}>
      {name} {version}
    </Link>
  );
}

/** A run or group that something waits for. */
interface Dependency {
  /** Null: the schedule has not made it yet. */
  readonly run?: string | null;
  readonly group?: string;
  readonly schedule?: string;
  readonly nominal_at?: string;
  /** Null: it is not made yet, or was removed. */
  readonly state: string | null;
  readonly when: 'completed' | 'failed' | 'ended';
}

const VERBS = { completed: 'complete', failed: 'fail', ended: 'end' } as const;

/** What a run or an array waits for, each with its state: `run 1c…4f (running) to complete, group 9a…7e (open) to end`. */
export function DependencyList({ of: dependencies }: { readonly of: readonly Dependency[] }) {
  return dependencies.map(({ run, group, state, when, schedule, nominal_at: at }, index) => {
    if (run === null)
      return (
        <Fragment key={`${schedule} ${at} ${when}`}>
          {index > 0 && ', '}
          what schedule <Link href={`/schedules/${encodeURIComponent(schedule ?? '')}`}>{schedule}</Link>{' '}
          makes for {at} (not made yet) to {VERBS[when]}
        </Fragment>
      );
    const id = run ?? group ?? '';
    const kind = run === undefined ? 'group' : 'run';
    return (
      <Fragment key={`${id} ${when}`}>
        {index > 0 && ', '}
        {kind}{' '}
        <Link href={`/${kind}s/${encodeURIComponent(id)}`} title={id}>
          <code>{shortId(id)}</code>
        </Link>{' '}
        ({state?.toLowerCase() ?? 'removed'}) to {VERBS[when]}
      </Fragment>
    );
  });
}
