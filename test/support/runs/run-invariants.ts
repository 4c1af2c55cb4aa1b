import assert from 'node:assert/strict';
import type { DataSource } from 'typeorm';
import { laneOf, PLAIN_LANE, type Demands } from '../../../src/runs/queue/lane.js';
import { rows } from '../../../src/database/sql/sql.js';
import { CPU_MILLIS, GPUS } from '../../../src/runs/storage/run-columns.js';

interface StoredRun {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly topic: string | null;
  readonly eventCount: number;
  readonly queued: boolean;
  /** Whether its next attempt has a time before which it does not begin. */
  readonly mayWait: boolean;
  /** Whether an admin has set its state, of which its timeline knows nothing. */
  readonly isPatched: boolean;
}

interface StoredEvent {
  readonly runId: string;
  readonly index: number;
  readonly attempt: number;
  readonly type: string;
  readonly state: string;
  readonly t: Date;
}

/** A row of the queue, with what its run demands. */
interface QueuedRow extends Demands {
  readonly lane: string;
  readonly isKnown: boolean;
}

/** States that a run may be in once its timeline says the given one: a claim leaves no entry. */
const STATES_BY_FOLD: Readonly<Record<string, readonly string[]>> = { PENDING: ['PENDING', 'ASSIGNED'] };

/**
 * Checks everything stored against what always holds: timelines dense from 0 and never back in time, attempts 1, 2,
 * 3 ... without holes and in the order of the timeline, each run's state the fold of its timeline, the queue exactly
 * the pending runs, executions exactly the runs that are ASSIGNED or RUNNING, and the feeds dense, each exactly the timelines of the runs that name its topic;
 * of runs that wait for others, what {@link checkWaits} checks.
 */
export async function checkInvariants(dataSource: DataSource): Promise<void> {
  const runs = await rows<StoredRun>(
    dataSource,
    `select r.id, r.state, r.attempt, r.topic, r.event_count as "eventCount", q.run_id is not null as queued, r.not_before is not null as "mayWait",
            exists (
              select
                from audit_entries a
               where a.run_id = r.id
                 and a.action = 'run.patch'
                 and a.before ->> 'state' <> a.after ->> 'state'
            ) as "isPatched"
       from runs r
       left join queue q on q.run_id = r.id and q.priority = r.priority and q.created_at = r.created_at`,
  );
  const queue = await rows<QueuedRow>(
    dataSource,
    `select q.lane, r.requirement_id as "requirementId", r.concurrency_key as "concurrencyKey",
            r.avoided_worker as "avoidedWorker", q.lane = '${PLAIN_LANE}' or l.id is not null as "isKnown"
       from queue q
       left join runs r on r.id = q.run_id
       left join lanes l on l.id = q.lane`,
  );
  for (const { lane, isKnown, ...run } of queue) {
    assert.deepEqual(
      [lane, isKnown],
      [laneOf(run), true],
      'each run is in the lane of its demands, which is known',
    );
  }
  assert.equal(queue.length, runs.filter(({ queued }) => queued).length, 'the queue holds runs only');
  const wrong = await rows<{ id: string }>(
    dataSource,
    `select coalesce(r.id, e.run_id) as id
       from (select * from runs where state in ('ASSIGNED', 'RUNNING')) r
       full join executions e
         on (e.run_id, e.created_at, e.attempt, e.cpu_millis, e.ram_mb, e.vram_mb) = (r.id, r.created_at, r.attempt, ${CPU_MILLIS}, r.ram_mb, r.vram_mb)
        and (e.worker_id, e.gpus, e.gpu_id, e.gpu_ids, e.assigned_at, e.requirement_id, e.concurrency_key)
            is not distinct from (coalesce(r.worker_id, ''), ${GPUS}, r.gpu_id, r.gpu_ids, r.assigned_at, r.requirement_id, r.concurrency_key)
      where r.id is null or e.run_id is null`,
  );
  assert.deepEqual(wrong, [], 'executions are exactly the runs in execution');
  const events = await rows<StoredEvent>(
    dataSource,
    'select run_id as "runId", index, attempt, type, state, t from events order by run_id, index',
  );
  const timelines = groupBy(events, ({ runId }) => runId);
  const ended = await rows<{ runId: string; attempt: number }>(
    dataSource,
    'select run_id as "runId", attempt from attempts order by run_id, attempt',
  );
  const attempts = groupBy(ended, ({ runId }) => runId);
  const known = new Set(runs.map(({ id }) => id));
  assert.ok([...timelines.keys(), ...attempts.keys()].every((id) => known.has(id)));
  for (const run of runs) {
    const timeline = timelines.get(run.id) ?? [];
    checkTimeline(run, timeline);
    // A run that waits for its time is put into the queue when a process sees that it has come.
    if (run.state !== 'PENDING' || !run.mayWait)
      assert.equal(run.queued, run.state === 'PENDING', 'in the queue exactly while pending');
    assert.deepEqual(
      [...(attempts.get(run.id) ?? []).map(({ attempt }) => attempt), run.attempt],
      Array.from({ length: run.attempt }, (_, i) => i + 1),
      'attempts without holes',
    );
  }
  await checkFeeds(dataSource, runs);
  await checkWaits(dataSource);
}

/**
 * Checks that each run and array that waits for others counts exactly those that have not ended, that none of them is in the queue, and
 * that all have been told of the ends so far.
 */
export async function checkWaits(dataSource: DataSource): Promise<void> {
  const wrong = await rows(
    dataSource,
    `select w.id, w.waits_for, n.open, n.broken
       from (
         select id, waits_for from runs where waits_for is not null
          union all
         select id, waits_for from groups where waits_for is not null
       ) w
      cross join lateral (
         select count(*) filter (where d.outcome is null) as open, count(*) filter (where d.outcome = 'broken') as broken
           from dependencies d
          where d.child_run = w.id
             or d.child_group = w.id
       ) n
      where n.open <> w.waits_for
         or n.open = 0
         or n.broken > 0
         or exists (select from queue q where q.run_id = w.id)
      union all
     select e.parent_id, null, null, null from dependency_ends e`,
  );
  assert.deepEqual(wrong, [], 'what waits counts what has not ended');
}

function checkTimeline(run: StoredRun, timeline: readonly StoredEvent[]): void {
  assert.deepEqual(
    timeline.map(({ index }) => index),
    Array.from({ length: run.eventCount }, (_, i) => i),
    'a timeline is dense',
  );
  let state = 'PENDING';
  let attempt = 1;
  let time = new Date(0);
  for (const entry of timeline) {
    assert.ok(entry.t >= time, 'time never goes back');
    assert.equal(entry.attempt, attempt, 'an entry belongs to the attempt that was current');
    time = entry.t;
    const isLossSurvived = entry.type === 'RECLAIMED' && entry.state === 'PENDING';
    if (entry.type === 'RETRIED' || isLossSurvived) {
      state = 'PENDING';
      attempt += 1;
    } else if (entry.type === 'RECLAIMED') state = 'FAILED';
    else if (entry.type === 'STARTED') state = 'RUNNING';
    else if (['COMPLETED', 'FAILED', 'CANCELLED'].includes(entry.type)) state = entry.type;
  }
  assert.equal(run.attempt, attempt);
  const isFold = (STATES_BY_FOLD[state] ?? [state]).includes(run.state);
  assert.ok(run.isPatched || isFold, `${run.state} is the fold: ${state}`);
}

async function checkFeeds(dataSource: DataSource, runs: readonly StoredRun[]): Promise<void> {
  const feed = await rows<{ topic: string; position: string; runId: string; index: number }>(
    dataSource,
    `select topic, position, run_id as "runId", event_index as index
       from feed_entries
      order by topic, position`,
  );
  for (const [topic, list] of groupBy(feed, (entry) => entry.topic)) {
    assert.deepEqual(
      list.map(({ position }) => Number(position)),
      list.map((_, i) => i + 1),
      `the feed of ${topic} is dense`,
    );
  }
  const mirrored = groupBy(feed, ({ runId }) => runId);
  for (const { id, topic, eventCount } of runs) {
    const entries = mirrored.get(id) ?? [];
    assert.ok(entries.every((entry) => entry.topic === topic));
    assert.deepEqual(
      entries.map(({ index }) => index),
      Array.from({ length: topic === null ? 0 : eventCount }, (_, i) => i),
      'the feed has every event of the run once and in its order',
    );
    mirrored.delete(id);
  }
  assert.equal(mirrored.size, 0, 'the feed has events of known runs only');
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item)) ?? [];
    group.push(item);
    groups.set(keyOf(item), group);
  }
  return groups;
}
