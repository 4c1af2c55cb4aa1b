import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { beforeAll, describe, it } from 'vitest';
import { v7 as uuidv7 } from 'uuid';
import { stringifyJson } from '@longshore/common/json/json-text';
import { RunEntity } from '../../../src/database/entities/run.entity.js';
import { isRetryable } from '../../../src/database/failover/unavailable.js';
import {
  CHANGING_FIELDS,
  createRun,
  FIXED_FIELDS,
  NO_OPTIONS,
  type Run,
} from '../../../src/runs/machine/run.js';
import { JSON_FIELDS, MACHINE_COLUMNS, RUNS } from '../../../src/runs/storage/run-columns.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { freshRun } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const FRESH = freshRun({
  image: 'registry/image:1',
  priority: 7,
  inputs: { in: 1 },
  outputsTemplate: { out: null },
  ramMb: 1,
  vramMb: 2,
  cpu: 3,
  extraConstraints: { cpu_millis: 2500, gpu_selector: ['a100'] },
  maxAttempts: 9,
  backoffS: 4,
  maxBackoffS: 5,
  startWithinS: 6,
  attemptTimeoutS: 8,
  topic: 'topic',
  attributes: { a: 'b' },
  definitionId: 'definition',
  definitionVersion: 'v1',
  traceparent: 'parent',
  tracestate: 'state',
  createdBy: uuidv7(),
  createdByName: 'key',
  rerunOf: uuidv7(),
});
const CREATED = createRun(FRESH, new Date('2026-11-22T08:00:00.123Z'));

const NO_EXECUTIONS = { ended: new Map<string, string>(), begun: [] };

/** The values of a run, times as text, without the transaction that wrote it and the request, which only reruns read. */
function valuesOf(run: object): unknown {
  return JSON.parse(stringifyJson({ ...run, writtenBy: undefined, request: undefined }));
}

const at = (second: number): Date => new Date(Date.UTC(2026, 10, 22, 9, 0, second));

/** Differs from the created run in every field that commands change. */
const CHANGED: Run = {
  ...CREATED,
  ramMb: 2,
  extraConstraints: {
    gpu_selector: ['a100'],
    grow: { ram_mb: { factor: 1.5, max: 9, on: ['oom'] } },
    grown: { ram_mb: 1, failures: 1 },
  },
  state: 'FAILED',
  priority: -1,
  progress: 50,
  attempt: 2,
  attemptId: uuidv7(),
  firstEvent: 3,
  eventCount: 5,
  failures: 1,
  reclaims: 2,
  outputs: { out: 'x' },
  gpuId: 1,
  gpuIds: '1,2',
  workerId: 'w',
  errorMessage: 'broke',
  cause: 'oom',
  exitCode: 137,
  cancelReason: 'no longer needed',
  avoidedWorker: 'v',
  queuedAt: at(1),
  assignedAt: at(2),
  startedAt: at(3),
  finishedAt: at(4),
  updatedAt: at(5),
};

describe('a stored run', () => {
  const database = useTestDatabase();
  const repository = new RunRepository();

  beforeAll(async () => {
    await repository.insert(database.dataSource.manager, [CREATED], false);
  });

  const versionsOf = async (id: string) =>
    new Map((await repository.find(database.dataSource.manager, [id])).map((run) => [run.id, run]));

  it('has in every column of its entity what it was created with', async () => {
    // Bytes of the JSON texts of inputs, template and attributes.
    const expected = { ...CREATED, endedWorker: null, outcome: 'OPEN', size: 8 + 12 + 9 };
    const { columns } = database.dataSource.getMetadata(RunEntity);
    assert.deepEqual(
      Object.keys(expected).toSorted(),
      columns.map(({ propertyName }) => propertyName).toSorted(),
    );
    const { manager } = database.dataSource;
    assert.deepEqual(
      valuesOf(await manager.findOneByOrFail(RunEntity, { id: CREATED.id })),
      valuesOf(expected),
    );
    assert.deepEqual(valuesOf(await repository.get(manager, CREATED.id)), valuesOf(CREATED));
  });

  it('without options has what it was created with, also if its insertion puts it into the queue', async () => {
    const { manager } = database.dataSource;
    const plain = createRun({ ...FRESH, ...NO_OPTIONS, id: uuidv7() }, CREATED.createdAt);
    await repository.insert(manager, [plain], true);
    const stored = await manager.findOneByOrFail(RunEntity, { id: plain.id });
    const expected = { ...plain, endedWorker: null, outcome: 'OPEN', size: 8 + 12 + 9 };
    assert.deepEqual(valuesOf(stored), valuesOf(expected));
  });

  it('has everything that a command changes, and keeps the rest', async () => {
    const { manager } = database.dataSource;
    await repository.update(
      manager,
      [CHANGED],
      await versionsOf(CREATED.id),
      new Set(CHANGING_FIELDS),
      NO_EXECUTIONS,
    );
    assert.deepEqual(valuesOf(await repository.get(manager, CREATED.id)), valuesOf(CHANGED));
    const [found] = await repository.find(manager, [CREATED.id]);
    assert.ok(found);
    const { readAt, writtenBy, ...stored } = found;
    assert.ok(readAt instanceof Date);
    assert.match(writtenBy, /^\d+$/);
    const fields: readonly string[] = [...FIXED_FIELDS, ...CHANGING_FIELDS, 'attributes'];
    const expected = Object.entries(CHANGED).filter(([field]) => fields.includes(field));
    assert.equal(expected.length, fields.length);
    assert.deepEqual(
      JSON.parse(stringifyJson(stored)),
      JSON.parse(
        stringifyJson({
          ...Object.fromEntries(expected),
          hasAttributes: true,
          feedName: CHANGED.name,
          feedLabels: CHANGED.labels,
          hasFeedLabels: CHANGED.labels !== null,
        }),
      ),
    );
  });

  it('is read for commands without large attributes, however small they are when they are compressed', async () => {
    const { manager } = database.dataSource;
    for (const [attributes, isRead] of [
      [{ a: 'x'.repeat(1000) }, true],
      [{ a: 'x'.repeat(1100) }, false],
      [{ a: 'x'.repeat(20_000) }, false],
      [{ a: randomBytes(500_000).toString('hex') }, false],
    ] as const) {
      const id = uuidv7();
      await repository.insert(manager, [{ ...CREATED, id, attributes }], false);
      const [found] = await repository.find(manager, [id]);
      assert.equal(found?.hasAttributes, true);
      assert.equal(stringifyJson(found.attributes), stringifyJson(isRead ? attributes : null));
    }
  });

  it('is read without columns of free size by statements that read many runs for the state machine', () => {
    const columns = new Set([...MACHINE_COLUMNS.matchAll(/\br\.(\w+)/g)].map(([, column]) => column));
    assert.ok(columns.has('created_at'));
    for (const field of JSON_FIELDS) assert.ok(!columns.has(RUNS.column(field)), field);
  });

  it('has the change of each field, with and without new outputs', async () => {
    const { manager } = database.dataSource;
    for (const field of CHANGING_FIELDS) {
      for (const outputs of [undefined, { out: field }]) {
        const id = uuidv7();
        await repository.insert(manager, [{ ...CREATED, id }], false);
        await repository.update(
          manager,
          [{ ...CHANGED, id, outputs }],
          await versionsOf(id),
          new Set([field]),
          NO_EXECUTIONS,
        );
        const stored = await repository.get(manager, id);
        assert.deepEqual(stored[field], CHANGED[field], field);
        assert.equal(stringifyJson(stored.outputs), stringifyJson(outputs ?? CREATED.outputs), field);
        assert.equal(stored.image, CREATED.image);
      }
    }
  });

  it('is not changed by a group that read it before another change, and nothing of that group is written', async () => {
    const { manager } = database.dataSource;
    const [id, other] = [uuidv7(), uuidv7()];
    await repository.insert(
      manager,
      [CREATED, CREATED].map((run, n) => ({ ...run, id: n === 0 ? id : other })),
      false,
    );
    const before = new Map([...(await versionsOf(id)), ...(await versionsOf(other))]);
    const change = (ids: readonly string[], progress: number) =>
      repository.update(
        manager,
        ids.map((one) => ({ ...CHANGED, id: one, progress })),
        before,
        new Set(['progress']),
        NO_EXECUTIONS,
      );
    await change([id], 10);
    await assert.rejects(change([id, other], 20), (error) => isRetryable(error));
    assert.deepEqual(
      await Promise.all([id, other].map(async (one) => (await repository.get(manager, one)).progress)),
      [10, CREATED.progress],
    );
  });
});
