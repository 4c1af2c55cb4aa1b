import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { DataSource } from 'typeorm';
import { execute, rows } from '../../../src/database/sql/sql.js';
import type { ClaimOutcome } from '../../../src/runs/journal/command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import type { ClaimingWorker } from '../../../src/runs/scheduling-strategy.js';
import { DirectStrategy } from '../../../src/claims/strategies/direct.strategy.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import { checkKeys } from '../../support/runs/concurrency-keys.js';
import {
  eventCommand,
  freshRun,
  journalOn,
  openJournal,
  claimOf,
  poolOf,
} from '../../support/runs/journal.js';
import { atDepth } from '../../support/depth.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const TAGS = ['gpu', 'linux', 'big'];
const STEPS = atDepth({ fast: 12, all: 50, soak: 600 });
const PROCESSES = 3;

/** The limits of the runs of a key; one that has several is never exceeded beyond its largest. */
const LIMITS: Readonly<Record<string, readonly number[]>> = { k0: [1], k1: [2], k2: [3], k3: [1, 2, 4] };

const COMPLETED = eventCommand({ type: 'COMPLETED', msg: '' });
const CANCELLED = eventCommand({ type: 'CANCELLED', msg: '' });

/** Workers are named by their tags. */
function workerOf(id: string): ClaimingWorker {
  return { id, cpuCores: 1_000, ramMb: 1_000, gpus: [], tags: id.split('+'), capabilities: [] };
}

const pool = poolOf((ids) => new Map(ids.map((id) => [id, workerOf(id)])));

const pick = <T>(items: readonly T[]): T => {
  const item = items[Math.floor(Math.random() * items.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
};

function someRun(): NewRun {
  const key = pick([null, ...Object.keys(LIMITS)]);
  const selector = TAGS.filter(() => Math.random() < 0.3);
  return freshRun({
    maxAttempts: 3,
    priority: pick([0, 1]),
    cpu: pick([1, 2]),
    selector: selector.length === 0 ? null : selector,
    requirementId: requirementIdOf({ tags: selector, capabilities: [], gpuTags: [], gpus: null }),
    concurrencyKey: key,
    concurrencyLimit: key === null ? null : pick(LIMITS[key] ?? [1]),
  });
}

const someWorker = (): string => TAGS.filter(() => Math.random() < 0.7).join('+') || 'none';

/** One step of one process. */
async function step(journal: RunJournal, source: DataSource): Promise<void> {
  const roll = Math.random();
  if (roll < 0.35) return void (await journal.create(someRun()));
  if (roll < 0.65) {
    await journal.claim({ ...claimOf(someWorker()), max: pick([1, 1, 4]) });
    return;
  }
  const [run] = await rows<{ id: string; workerId: string | null; attempt: number }>(
    source,
    `select id, worker_id as "workerId", attempt
       from runs
      where state in ('PENDING', 'ASSIGNED', 'RUNNING')
      order by (state <> 'PENDING')::integer * random() desc
      limit 1`,
  );
  if (!run) return;
  const command = pick<RunCommand>([
    COMPLETED,
    eventCommand({ type: 'FAILED', msg: '' }),
    CANCELLED,
    { type: 'patch', keyName: 'test', priority: pick([0, 1, 2]) } as const,
    { type: 'patch', keyName: 'test', state: 'PENDING' } as const,
    {
      type: 'reclaim',
      workerId: run.workerId ?? '',
      attempt: run.attempt,
      lastHeartbeatAt: null,
    } as const,
  ]);
  await journal.change(run.id, command);
}

const REFUSALS = new Set(['RunRejected', 'RunNotFound']);

for (const strategy of [new DirectStrategy(), new FitStrategy(300)]) {
  describe(`several processes that claim by ${strategy.name}, end, reclaim and change runs, and lose connections`, () => {
    const database = useTestDatabase();
    let sources: DataSource[];
    let journals: RunJournal[];

    beforeAll(async () => {
      sources = await Promise.all(Array.from({ length: PROCESSES }, () => openJournal(database)));
      journals = sources.map((source) => journalOn(source, { strategy, pool }).journal);
    });

    /** In one snapshot after the other: keys of which more runs execute than any of them allows. */
    async function watch(over: AbortSignal): Promise<{ snapshots: number; exceeded: object[] }> {
      const exceeded: object[] = [];
      let snapshots = 0;
      for (; !over.aborted; snapshots += 1) {
        const found = await rows<{ key: string; executing: number }>(
          database.dataSource,
          `select concurrency_key as key, count(*)::integer as executing
             from runs
            where state in ('ASSIGNED', 'RUNNING')
              and concurrency_key is not null
            group by concurrency_key`,
        );
        exceeded.push(...found.filter(({ key, executing }) => executing > Math.max(...(LIMITS[key] ?? []))));
      }
      return { snapshots, exceeded };
    }

    /** Ends the connections of a process while their transactions are under way. */
    async function breakConnections(over: AbortSignal): Promise<number> {
      let broken = 0;
      for (let n = 0; !over.aborted; n += 1) {
        await execute(database.dataSource, 'select pg_sleep(0.02)');
        if (n % 10 !== 0) continue;
        broken += await execute(
          database.dataSource,
          `select pg_terminate_backend(pid)
             from pg_stat_activity
            where datname = current_database()
              and pid <> pg_backend_pid()
              and state <> 'idle'
              and query like '%concurrency_keys%'`,
        );
      }
      return broken;
    }

    test('never execute more runs of a key than its limit, and count exactly', async () => {
      const over = new AbortController();
      const watched = watch(over.signal);
      const breaking = breakConnections(over.signal);
      const failures: unknown[] = [];
      await Promise.all(
        journals.flatMap((journal, i) =>
          Array.from({ length: 4 }, async () => {
            for (let n = 0; n < STEPS; n += 1) {
              await step(journal, sources[i] ?? database.dataSource).catch((error: unknown) => {
                if (!(error instanceof Error && REFUSALS.has(error.constructor.name))) failures.push(error);
              });
            }
          }),
        ),
      );
      over.abort();
      const { snapshots, exceeded } = await watched;
      const broken = await breaking;
      assert.deepEqual(exceeded, []);
      assert.ok(snapshots > 20, `${snapshots} snapshots`);
      // A broken connection fails the commands of its group; nothing else does.
      assert.ok(broken > 0 || failures.length === 0, String(failures[0]));
      await checkKeys(database.dataSource);
    });

    test('leave no run behind that a worker may get, and give no other', async () => {
      const [journal] = journals;
      assert.ok(journal);
      const any = TAGS.join('+');
      for (let isEmpty = false; !isEmpty;) {
        const workerId = pick([someWorker(), any]);
        const [expected] = await rows<{ count: number }>(
          database.dataSource,
          `select count(*)::integer as count
             from runs r
            where r.state = 'PENDING'
              and r.not_before is null
              and array(select json_array_elements_text(coalesce(r.selector, '[]'))) <@ $1::text[]
              and (r.concurrency_key is null
                   or r.concurrency_limit > (
                        select count(*)
                          from runs e
                         where e.concurrency_key = r.concurrency_key
                           and e.state in ('ASSIGNED', 'RUNNING')
                      ) + (
                        select count(*)
                          from concurrency_slots s
                         where s.key = r.concurrency_key
                      ))`,
          [workerId.split('+')],
        );
        const outcome: ClaimOutcome = await journal.claim({ ...claimOf(workerId), max: 1 });
        const got = outcome.runs.length;
        assert.equal(got, Math.min(1, expected?.count ?? 0), `a claim of ${workerId}`);
        isEmpty = got === 0 && workerId === any;
      }
      await checkKeys(database.dataSource);
    });

    test('do not deadlock', async () => {
      const [found] = await rows<{ deadlocks: string }>(
        database.dataSource,
        'select deadlocks from pg_stat_database where datname = current_database()',
      );
      assert.equal(Number(found?.deadlocks), 0);
    });
  });
}
