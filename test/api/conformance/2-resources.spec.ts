import assert from 'node:assert/strict';
import { showOptions } from '../../../src/runs/options/stored-options.js';
import { describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** Fields of a run that are settled beside the specification's. */
const SETTLED = Object.keys(showOptions(null)).concat(
  ...'concurrency labels name op_definition_version selector start_at'.split(' '),
  ...'array created_by group rerun_of reruns schedule source'.split(' '),
);
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describe('section 2: resources and their fields', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const define = async (body: object): Promise<Json> => {
    const answer = await service.send('POST', '/definitions', {
      body: { image: 'i', version: '1', ...body },
    });
    assert.equal(answer.status, 201, answer.text);
    return answer.body;
  };

  describe('as specified', () => {
    test('an OpRun has its fields and no other', async () => {
      const fields = Object.keys(await steps.create()).filter((field) => !SETTLED.includes(field));
      assert.deepEqual(fields.toSorted(), [
        'constraints',
        'createdAt',
        'current_attempt',
        'event_delivery',
        'events',
        'execution_summary',
        'id',
        'image',
        'inputs',
        'op_definition',
        'outputs',
        'priority',
        'progress',
        'retry_policy',
        'state',
        'updatedAt',
      ]);
    });

    test('the service makes the id of a run', async () => {
      const [a, b] = [await steps.create(), await steps.create()];
      assert.ok(typeof a.id === 'string' && a.id !== b.id);
      assertInvalid(await service.send('POST', '/runs', { body: { image: 'i', id: a.id } }), [
        'id is not a known field',
      ]);
    });

    test('of two pending runs the one with the higher priority goes first', async () => {
      await steps.emptyQueue();
      const low = await steps.create({ priority: -5 });
      const high = await steps.create({ priority: -4 });
      assert.deepEqual([(await steps.claim())[0].id, (await steps.claim())[0].id], [high.id, low.id]);
    });

    test('progress goes from 0 to 100 and follows PROGRESS', async () => {
      const run = await steps.running();
      assert.equal(run.progress, 0);
      assert.equal((await steps.event(run.id, 'PROGRESS', undefined, 33)).progress, 33);
      assert.equal((await steps.event(run.id, 'PROGRESS', undefined, 100)).progress, 100);
    });

    test('every retry counts the current attempt up', async () => {
      const { id } = await steps.create();
      for (const attempt of [2, 3]) {
        const run = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
        assert.equal(run.current_attempt, attempt);
      }
    });

    test('a run made directly has null for its definition, another one the definition’s id', async () => {
      await define({ id: 'parent' });
      const created = await service.send('POST', '/definitions/parent/runs', { body: {} });
      assert.equal(bodyOf(created, 'OpRun', 201).op_definition, 'parent');
      assert.equal((await steps.create()).op_definition, null);
    });

    test('updatedAt moves with a change, createdAt does not', async () => {
      const run = await steps.create();
      const changed = await steps.event(run.id, 'NOTE');
      assert.equal(changed.createdAt, run.createdAt);
      assert.ok(changed.updatedAt >= run.updatedAt);
      assert.equal(changed.updatedAt, changed.events[0].t);
    });

    test('constraints hold RAM, GPU memory, CPUs and a GPU that may be null', async () => {
      const run = await steps.create({ constraints: { ram_mb: 1, vram_mb: 2, cpu: 3 } });
      assert.deepEqual(run.constraints, { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: null });
    });

    test('event delivery holds a topic, and attributes from text to text only if they were given', async () => {
      const plain = await steps.create({ event_delivery: { topic: 't' } });
      assert.deepEqual(plain.event_delivery, { topic: 't' });
      const labelled = await steps.create({ event_delivery: { topic: 't', attributes: { a: 'b' } } });
      assert.deepEqual(labelled.event_delivery, { topic: 't', attributes: { a: 'b' } });
    });

    test('an OpAttempt has its fields and names its run and its number', async () => {
      const run = await steps.running({ inputs: { a: 1 }, constraints: { cpu: 2 } });
      const [attempt] = await steps.attempts(run.id);
      const { id, events, execution_summary: summary, started_at: startedAt, ...rest } = attempt;
      assert.deepEqual(rest, {
        op_run_id: run.id,
        attempt: 1,
        state: 'RUNNING',
        progress: 0,
        inputs: { a: 1 },
        outputs: {},
        constraints: { ram_mb: 0, vram_mb: 0, cpu: 2, gpu_id: null },
        finished_at: null,
      });
      assert.match(id, UUID_V7);
      assert.deepEqual(events, run.events);
      assert.deepEqual(summary, run.execution_summary);
      assert.match(startedAt, ISO);
    });

    test('an entry of a poll is its index, type, time, message, payload and the state that the run has now', async () => {
      const { id } = await steps.running();
      await steps.event(id, 'NOTE', { a: 1 }, 7);
      await service.send('POST', `/runs/${id}/cancel`);
      const entries = await steps.poll(id);
      assert.deepEqual(
        entries.map(({ t, ...entry }) => [ISO.test(t), entry]),
        [
          [0, 'STARTED', '', { worker_id: 'w' }],
          [1, 'NOTE', 7, { a: 1 }],
          [2, 'CANCELLED', 'Cancelled by user', {}],
        ].map(([entryId, type, msg, payload]) => [
          true,
          { id: entryId, type, msg, state: 'CANCELLED', payload },
        ]),
      );
    });

    test('a feed event is a cursor, run, attempt, type, message, time, state and payload', async () => {
      const { id } = await steps.create({ event_delivery: { topic: 'fields' } });
      const { updatedAt } = await steps.event(id, 'NOTE', { a: 1 }, 'text');
      const { status, body } = await service.send('GET', '/feed?topic=fields');
      assert.equal(status, 200);
      const [{ cursor }] = body.events;
      assert.equal(typeof cursor, 'string');
      const event = { run_id: id, attempt: 1, type: 'NOTE', msg: 'text', t: updatedAt, state: 'PENDING' };
      assert.deepEqual(body, {
        events: [{ cursor, ...event, payload: { a: 1 } }],
        next_cursor: cursor,
        has_more: false,
      });
    });

    test('a worker is its id, resources, tags, running runs, two times, whether it is active and whether it drains', async () => {
      const resources = { cpu_cores: 2, ram_mb: 3, gpus: [{ id: 1, vram_mb: 4, tags: ['x'] }] };
      const running = [{ id: 'r', image: 'i', inputs: { a: 1 }, constraints: { cpu: 1 } }];
      const worker = await steps.heartbeat('fields', { resources, tags: ['a', 'b'], running_ops: running });
      const { created_at: createdAt, last_heartbeat_at: last, ...rest } = worker;
      assert.deepEqual(rest, {
        id: 'fields',
        resources,
        // Settled beside the specification's.
        capabilities: [],
        tags: ['a', 'b'],
        running_ops: running,
        is_active: true,
        draining: false,
        not_claiming: [],
        unable: [],
      });
      assert.ok(ISO.test(createdAt) && ISO.test(last));
    });

    test('a claimed run is its id, image, inputs and constraints', async () => {
      await steps.emptyQueue();
      const { id } = await steps.create({ image: 'img', inputs: { a: 1 }, constraints: { ram_mb: 5 } });
      const [op] = await steps.claim();
      const constraints = { ram_mb: 5, vram_mb: 0, cpu: 0, gpu_id: null };
      assert.deepEqual(op, { id, image: 'img', inputs: { a: 1 }, constraints, attempt: 1 });
    });

    test('a definition is what was stored and two times', async () => {
      const given = {
        id: 'complete',
        version: '2',
        image: 'img',
        input_specs: { a: { type: 'string', required: true, default: 'x' } },
        output_specs: { b: { type: 'integer' } },
        constraints: { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: null },
        retry_policy: { max_attempts: 4, grow: { ram_mb: { factor: 2, max: 4, on: ['oom'] } } },
        event_delivery: { topic: 't', attributes: { k: 'v' } },
        // Settled beside the specification's.
        env: { A: '1' },
        command: ['c'],
        args: ['a'],
        secrets: { B: 'b' },
        secrets_from: [{ secret: 'map' }],
        files: { '/etc/key': { secret: 'key', env: 'KEY_FILE' } },
        mounts: [
          { volume: 'v', path: '/v', sub_path: 'a' },
          { scratch_mb: 1, path: '/s' },
        ],
        image_pull_secret: 'login',
        workdir: '/w',
        user: '1:2',
        network: 'db',
        stop_grace_s: 20,
        selector: ['tag'],
        concurrency: { key: 'k', limit: 2 },
        labels: { team: 'vision' },
        description: 'Counts words.',
      };
      const { createdAt, updatedAt, created_by, updated_by, applied, ...rest } = await define(given);
      assert.deepEqual([rest, applied], [{ ...showOptions(null), ...given }, null]);
      assert.ok(ISO.test(createdAt) && ISO.test(updatedAt) && created_by.key_id === updated_by.key_id);
    });

    test('the list of runs is an envelope of object, data, has_more and url', async () => {
      const { id } = await steps.create({ image: 'only-one' });
      const { status, body } = await service.send('GET', '/runs?image=only-one');
      assert.equal(status, 200);
      const data = [{ ...(await steps.get(id)), reason: body.data[0].reason }];
      assert.deepEqual(body, { object: 'list', data, has_more: false, url: '/runs' });
    });

    test('an error is a detail and, where there are several, errors', async () => {
      assert.deepEqual(Object.keys((await service.send('GET', '/runs/nope')).body), ['detail']);
      const many = await service.send('POST', '/runs', { body: {} });
      assert.deepEqual(many.body, { detail: 'Request validation failed', errors: ['image is required'] });
    });
  });

  describe('as settled', () => {
    test('ids of runs and attempts are UUIDs of version 7 in lower case', async () => {
      const { id } = await steps.create();
      const [attempt] = await steps.attempts(id);
      assert.match(id, UUID_V7);
      assert.match(attempt.id, UUID_V7);
    });

    test('what is left out at the creation has its default', async () => {
      const run = await steps.create({ image: 'i' });
      assert.deepEqual(
        [run.priority, run.inputs, run.outputs, run.constraints, run.retry_policy, run.event_delivery],
        [0, {}, {}, { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null }, { max_attempts: 1 }, null],
      );
    });

    test('blocks that are given in part take the defaults for the rest', async () => {
      const run = await steps.create({ constraints: { cpu: 2 }, retry_policy: {} });
      assert.deepEqual(run.constraints, { ram_mb: 0, vram_mb: 0, cpu: 2, gpu_id: null });
      assert.deepEqual(run.retry_policy, { max_attempts: 1 });
    });

    test('null for an optional field is as good as leaving it out', async () => {
      const run = await steps.create({ priority: null, inputs: null, event_delivery: null });
      assert.deepEqual([run.priority, run.inputs, run.event_delivery], [0, {}, null]);
    });

    test('a run of a definition also says which version it was made from', async () => {
      await define({ id: 'versioned', version: '3.1' });
      const created = await service.send('POST', '/definitions/versioned/runs', { body: {} });
      assert.equal(created.body.op_definition_version, '3.1');
      assert.equal((await steps.create()).op_definition_version, null);
    });

    test('an entry of a timeline is its index over all attempts, attempt, type, time, message and payload', async () => {
      const { id } = await steps.running();
      await service.send('POST', `/runs/${id}/retry`);
      const run = await steps.event(id, 'NOTE');
      assert.deepEqual(
        run.events.map(({ t: _t, ...entry }: Json) => entry),
        [
          { id: 0, attempt: 1, type: 'STARTED', msg: '', payload: { worker_id: 'w' } },
          { id: 1, attempt: 1, type: 'RETRIED', msg: 'Manual retry', payload: { force: true } },
          { id: 2, attempt: 2, type: 'NOTE', msg: '', payload: {} },
        ],
      );
      const [first, second] = await steps.attempts(id);
      assert.deepEqual([...first.events, ...second.events], run.events);
    });

    test('the execution summary gains worker, times and durations as they become known', async () => {
      const created = await steps.create();
      assert.deepEqual(created.execution_summary, {});
      const { id } = await steps.running();
      await steps.event(id, 'STARTED', { worker_id: 'w', gpu_id: 1 });
      const { execution_summary: summary } = await steps.event(id, 'FAILED', { error_message: 'no' });
      assert.deepEqual(Object.keys(summary).toSorted(), [
        'assigned_at',
        'cause',
        'duration_ms',
        'error_message',
        'finished_at',
        'gpu_id',
        'queued_ms',
        'started_at',
        'worker_id',
      ]);
    });

    test('times are ISO 8601 in UTC with milliseconds', async () => {
      const { createdAt, updatedAt, execution_summary: summary } = await steps.inState('COMPLETED');
      for (const time of [
        createdAt,
        updatedAt,
        summary.assigned_at,
        summary.started_at,
        summary.finished_at,
      ]) {
        assert.match(time, ISO);
      }
    });

    test('an unknown field is refused by its path, but not in a heartbeat', async () => {
      assertInvalid(await service.send('POST', '/runs', { body: { image: 'i', constraints: { tpus: 1 } } }), [
        'constraints.tpus is not a known field: did you mean constraints.gpus?',
      ]);
      const resources = { cpu_cores: 1, ram_mb: 1, gpus: [], disk_mb: 1 };
      await steps.heartbeat('newer', { resources, mood: 'good' });
    });

    test('numbers of typed fields that would be altered, and text that cannot be stored, are refused', async () => {
      for (const priority of ['9007199254740993', '1e400', '1e-400', '-1e-400']) {
        const answer = await service.send('POST', '/runs', { body: `{"image":"i","priority":${priority}}` });
        assertInvalid(answer, ['priority must be an integer from -2147483648 to 2147483647']);
      }
      for (const inputs of ['"\\u0000"', '"\\ud800"']) {
        const body = `{"image":"i","inputs":{"n":${inputs}}}`;
        assert.equal((await service.send('POST', '/runs', { body })).status, 400, inputs);
      }
      const fraction = await steps.create({ inputs: { n: 0.1 } });
      assert.deepEqual(fraction.inputs, { n: 0.1 });
    });
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
