import assert from 'node:assert/strict';
import { beforeAll, beforeEach, describe, test } from 'vitest';
import { v7 as uuidv7 } from 'uuid';
import { execute, rows } from '../../../src/database/sql/sql.js';
import type { ClaimOutcome } from '../../../src/runs/journal/command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { EventRepository } from '../../../src/runs/events/event.repository.js';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import { RUN_STATES } from '../../../src/runs/machine/run-state.js';
import type { NewRun, Run } from '../../../src/runs/machine/run.js';
import { QueueReader } from '../../../src/runs/queue/queue.reader.js';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import type { ClaimingWorker, SchedulingStrategy } from '../../../src/runs/scheduling-strategy.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { DirectStrategy } from '../../../src/claims/strategies/direct.strategy.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import {
  changeOn,
  claimOf,
  createOn,
  eventCommand,
  journalOn,
  poolOf,
  queueWith,
  NO_PAUSES,
} from '../../support/runs/journal.js';
import { checkKeys } from '../../support/runs/concurrency-keys.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** Chooses the youngest runs: as an extension might. */
const YOUNGEST: SchedulingStrategy = {
  name: 'youngest',
  candidatesFor: () => ({ limit: 50 }),
  obstacles: () => [],
  choose: (claimants, candidates) => ({
    assignments: claimants
      .flatMap(({ max = 1 }, claim) => Array.from({ length: max }, () => claim))
      .flatMap((claim, at) => {
        const run = candidates.at(-1 - at);
        return run ? [{ claim, runId: run.id, gpuId: null }] : [];
      }),
  }),
};

const COMPLETED = eventCommand({ type: 'COMPLETED', msg: '' });

/** The fields of a run with a selector. */
const selecting = (...selector: string[]): Partial<NewRun> => ({
  selector,
  requirementId: requirementIdOf({ tags: selector, capabilities: [], gpuTags: [], gpus: null }),
});

const keyed = (key: string, limit: number): Partial<NewRun> => ({
  concurrencyKey: key,
  concurrencyLimit: limit,
});

/** The workers are named by what they have: `gpu+linux` has two tags, `plain` none. */
function workerOf(id: string): ClaimingWorker {
  const tags = id === 'plain' ? [] : id.split('+');
  return { id, cpuCores: 8, ramMb: 8192, gpus: [], tags, capabilities: id.includes('env') ? ['env'] : [] };
}

const pool = poolOf((ids) => new Map(ids.map((id) => [id, workerOf(id)])));

function idsOf({ runs }: ClaimOutcome): string[] {
  return runs.map(({ run }) => run.id);
}

for (const strategy of [new DirectStrategy(), new FitStrategy(300), YOUNGEST]) {
  describe(`a claim by ${strategy.name}`, () => {
    const database = useTestDatabase();
    let journal: RunJournal;

    beforeAll(() => {
      ({ journal } = journalOn(database.dataSource, { strategy, pool }));
    });
    beforeEach(async () => {
      await execute(database.dataSource, 'delete from queue');
    });

    const claim = (workerId: string, max = 1, on = journal): Promise<ClaimOutcome> =>
      on.claim({ ...claimOf(workerId), max });
    const create = (...given: Partial<NewRun>[]): Promise<Run> =>
      createOn(journal, Object.assign({}, ...given));

    test('gives a run to a worker that has all its tags, and to no other', async () => {
      const { id } = await create(selecting('gpu', 'linux'));
      assert.deepEqual(idsOf(await claim('plain')), []);
      assert.deepEqual(idsOf(await claim('gpu')), []);
      assert.deepEqual(idsOf(await claim('gpu+linux+x')), [id]);
    });

    test('gives a run that needs a capability to no worker without it', async () => {
      const options = { env: { A: '1' } };
      const { id } = await create({
        options,
        requirementId: requirementIdOf({ tags: [], capabilities: ['env'], gpuTags: [], gpus: null }),
      });
      assert.deepEqual(idsOf(await claim('gpu')), []);
      assert.deepEqual(idsOf(await claim('env')), [id]);
    });

    test('gives a run to one of the claims that it serves at once, when another transaction holds a chosen run', async () => {
      const any = await create();
      const gpu = await create(selecting('gpu'));
      const other = await database.open(1);
      await other.transaction(async (manager) => {
        await manager.query('select 1 from queue where run_id = $1 for update', [gpu.id]);
        const outcomes = await Promise.all([claim('plain'), claim('gpu')]);
        assert.deepEqual(outcomes.flatMap(idsOf), [any.id]);
      });
    });

    test('serves several claims at once, each with runs that its worker may get', async () => {
      const gpu = await create(selecting('gpu'));
      const linux = await create(selecting('linux'));
      const any = await create();
      const [a, b, c] = await Promise.all([claim('plain'), claim('linux'), claim('gpu')]);
      const got = [a, b, c].flatMap(idsOf);
      // The strategy may give the plain run to any of them; what is left goes to the next claim.
      for (const worker of ['plain', 'linux', 'gpu', 'linux', 'gpu']) got.push(...idsOf(await claim(worker)));
      assert.deepEqual(got.toSorted(), [gpu.id, linux.id, any.id].toSorted());
    });

    test('gives no more runs of a key than the limit, until one ends', async () => {
      const key = uuidv7();
      for (let i = 0; i < 5; i += 1) await create(keyed(key, 2));
      const first = await claim('plain', 5);
      assert.equal(first.runs.length, 2);
      assert.equal((await claim('plain', 5)).runs.length, 0);
      await changeOn(journal, idsOf(first)[0] ?? '', COMPLETED);
      assert.equal((await claim('plain', 5)).runs.length, 1);
      assert.equal((await claim('plain', 5)).runs.length, 0);
      await checkKeys(database.dataSource);
    });

    test('applies the limit of the run to be assigned, and counts every run with the key', async () => {
      const key = uuidv7();
      await create(keyed(key, 5), { cpu: 1 });
      await create(keyed(key, 1), { cpu: 2 });
      await create(keyed(key, 2), { cpu: 3 });
      const first = await claim('plain', 1);
      const rest = await claim('plain', 5);
      const limits = [...first.runs, ...rest.runs].map(({ run }) => run.concurrencyLimit ?? 0);
      for (const [i, limit] of limits.entries()) assert.ok(i < limit, `${limit} after ${i} runs`);
      await checkKeys(database.dataSource);
    });

    test('passes the runs of a full key and gives the run behind them', async () => {
      const key = uuidv7();
      for (let i = 0; i < 3; i += 1) await create(keyed(key, 1));
      const behind = [await create(), await create(keyed(uuidv7(), 1)), await create(selecting('gpu'))];
      const got = idsOf(await claim('gpu', 10));
      if (strategy !== YOUNGEST) assert.equal(got.length, 4);
      for (let i = 0; i < 4; i += 1) got.push(...idsOf(await claim('gpu')));
      assert.equal(got.length, 4);
      assert.ok(behind.every(({ id }) => got.includes(id)));
    });

    test('gives no run to two claims when another process holds a run that one of them wanted', async () => {
      const held = await create(selecting('gpu'), { priority: 9 });
      const plain = [await create(), await create()];
      const got = await database.dataSource.transaction(async (manager) => {
        await execute(manager, 'select from runs where id = $1::uuid for update', [held.id]);
        const claims = await Promise.all([claim('gpu'), claim('plain')]);
        return claims.flatMap(idsOf);
      });
      assert.deepEqual(got.toSorted(), plain.map(({ id }) => id).toSorted());
    });

    test('counts a run of a key that is assigned again after its worker was lost', async () => {
      const key = uuidv7();
      const { id } = await create(keyed(key, 1), selecting('gpu'));
      const next = await create(keyed(key, 1), selecting('gpu'));
      await claim('gpu');
      const reclaim = {
        type: 'reclaim',
        workerId: 'gpu',
        attempt: 1,
        lastHeartbeatAt: null,
      } as const;
      await changeOn(journal, id, reclaim);
      await checkKeys(database.dataSource);
      const got = idsOf(await claim('gpu', 5));
      assert.equal(got.length, 1);
      assert.ok([id, next.id].includes(got[0] ?? ''));
      await checkKeys(database.dataSource);
    });
  });
}

describe('runs that not every worker may get', () => {
  const database = useTestDatabase();
  let journal: RunJournal;
  beforeAll(() => {
    ({ journal } = journalOn(database.dataSource, { pool }));
  });

  test('are claimed together with the others by priority, then age', async () => {
    const runs = [
      await createOn(journal, { priority: 1 }),
      await createOn(journal, { priority: 2, ...selecting('gpu') }),
      await createOn(journal, { priority: 2 }),
      await createOn(journal, { priority: 3, ...keyed('k', 1) }),
      await createOn(journal, { priority: 1, ...selecting('linux') }),
    ];
    const order: number[] = [];
    for (let i = 0; i < 5; i += 1) {
      const { runs: got } = await journal.claim(claimOf('gpu+linux'));
      order.push(runs.findIndex(({ id }) => id === got[0]?.run.id));
    }
    assert.deepEqual(order, [3, 1, 2, 0, 4]);
  });

  test('leaves the notes of a run alone while another transaction holds its key', async () => {
    const run = await createOn(journal, keyed('noted', 1));
    const queue = queueWith();
    const note = (): Promise<void> =>
      database.dataSource.transaction((manager) => queue.notePassedOver(manager, [run.id], new Date()));
    const isNoted = async (): Promise<boolean> => {
      const text = 'select passed_over_at is not null as noted from queue where run_id = $1::uuid';
      const [row] = await rows<{ noted: boolean }>(database.dataSource, text, [run.id]);
      return row?.noted === true;
    };
    await database.dataSource.transaction(async (manager) => {
      await queue.keys.lock(manager, ['noted']);
      await note();
      assert.equal(await isNoted(), false);
      await queue.reserve(manager, [{ runId: run.id, workerId: 'gpu' }]);
    });
    await note();
    assert.equal(await isNoted(), true);
    const { reservedFor } = (
      await new QueueReader(new RunRepository(), new EventRepository(), NO_PAUSES).listReserved(
        database.dataSource.manager,
        ['gpu'],
      )
    )[0] ?? { reservedFor: null };
    assert.equal(reservedFor, 'gpu');
  });

  test('counts the runs of a key through every change of their states', async () => {
    const retried = eventCommand({ type: 'RETRIED', msg: '', payload: { force: true } });
    const commands = (): RunCommand[] => [
      ...RUN_STATES.map((state) => ({ type: 'patch', keyName: 'test', state }) as const),
      { type: 'patch', keyName: 'test', priority: Math.floor(Math.random() * 3) },
      COMPLETED,
      retried,
      eventCommand({ type: 'FAILED', msg: '' }),
      eventCommand({ type: 'CANCELLED', msg: '' }),
    ];
    const runs = await Promise.all(
      Array.from({ length: 4 }, (_, i) =>
        createOn(journal, { ...keyed('counted', 2 + (i % 2)), maxAttempts: 9 }),
      ),
    );
    for (let round = 0; round < 60; round += 1) {
      const some = Array.from({ length: 5 }, () => ({
        id: runs[Math.floor(Math.random() * runs.length)]?.id ?? '',
        command: commands()[Math.floor(Math.random() * commands().length)] ?? COMPLETED,
      }));
      // Several of them are in one group, some on the same run.
      await Promise.allSettled([
        ...some.map(({ id, command }) => journal.change(id, command)),
        journal.claim({ ...claimOf('plain'), max: 2 }),
      ]);
      await checkKeys(database.dataSource);
    }
  });
});
