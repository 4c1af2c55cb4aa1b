import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { EventRepository } from '../../../src/runs/events/event.repository.js';
import { QueueReader, type RunStatus } from '../../../src/runs/queue/queue.reader.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { planNodes } from '../../support/postgres/plan-nodes.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { NO_PAUSES } from '../../support/runs/journal.js';

/** More than the limit of an attempt leaves. */
const OTHER_EVENTS = 20_000;

/** Entries that an explanation may read. */
const MOST_READ = 200;

interface Plan {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

describe('the job of a run with 20,000 other events', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  /** Appends events of a state to the timeline of a run, as its program or its clients report them. */
  const append = (id: string, state: string): Promise<number> =>
    execute(
      service.dataSource,
      `with run as (
         update runs set event_count = event_count + ${OTHER_EVENTS} where id = $1::uuid returning event_count
       )
       insert into events (run_id, index, attempt, type, state, t, msg, payload, size)
       select $1::uuid, run.event_count - n, 1, 'NOTE', $2::text, now(), '1', '{}', 3
         from run, generate_series(1, ${OTHER_EVENTS}) n`,
      [id, state],
    );

  /** @returns the status of the run, and the entries that the search for its job has read */
  async function find(id: string): Promise<{ readonly status: RunStatus; readonly read: number }> {
    const runner = service.dataSource.createQueryRunner();
    const send = runner.query.bind(runner);
    let plan: Plan | undefined;
    runner.query = async (sql: string, params?: unknown[], ...more: unknown[]) => {
      if (sql.includes(`'SUBMITTED'`)) {
        const [row] = await send(`explain (analyze, format json) ${sql}`, params);
        plan = row['QUERY PLAN'][0].Plan;
      }
      return Reflect.apply(send, runner, [sql, params, ...more]);
    };
    const reader = new QueueReader(new RunRepository(), new EventRepository(), NO_PAUSES);
    const status = await reader.getStatus(runner.manager, id);
    await runner.release();
    assert.ok(plan);
    const nodes = planNodes(plan);
    assert.ok(nodes.some((node) => node['Index Name'] === 'events_pkey'));
    const read = nodes.map((node) => node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0));
    return { status, read: Math.max(...read) };
  }

  const submit = (id: string): Promise<unknown> =>
    steps.event(id, 'SUBMITTED', { engine: 'slurm', engine_id: '42', reason: 'Priority' });

  it('is found among the newest entries while the run waits', async () => {
    const { id } = await steps.assigned();
    await append(id, 'ASSIGNED');
    await submit(id);
    await execute(service.dataSource, 'analyze events');
    const { status, read } = await find(id);
    assert.equal(status.submission?.engineId, '42');
    assert.ok(read <= MOST_READ, `${read} entries were read`);
  });

  it('is found among the first entries of the attempt while the program runs', async () => {
    const { id } = await steps.assigned();
    await submit(id);
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    await append(id, 'RUNNING');
    await execute(service.dataSource, 'analyze events');
    const { status, read } = await find(id);
    assert.equal(status.submission?.engineId, '42');
    assert.ok(read <= MOST_READ, `${read} entries were read`);
  });

  it('costs the same where there is none', async () => {
    const { id } = await steps.running();
    await append(id, 'RUNNING');
    await execute(service.dataSource, 'analyze events');
    const { status, read } = await find(id);
    assert.equal(status.submission, null);
    assert.ok(read <= MOST_READ, `${read} entries were read`);
  });
});
