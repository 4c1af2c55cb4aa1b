import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { describe, test } from 'vitest';
import { ObjectRemovalJob } from '../../../src/files/artifacts/removal/object-removal.job.js';
import { StoreSweepJob } from '../../../src/files/artifacts/removal/store-sweep.job.js';
import { RunRetention } from '../../../src/runs/run-retention.job.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const DAY_MS = 86_400_000;
const NOBODY = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';

interface Held {
  readonly op: any;
  readonly headers: Readonly<Record<string, string>>;
}

const as = ({ headers }: Held) => ({ key: KEYS.worker, headers });
const text = async (url: string): Promise<string> => (await fetch(url)).text();

describe('artifacts of runs', () => {
  const service = useTestApp({ env: { SERVICE_RUN_RETENTION_DAYS: '1' } });
  const files = new FileSteps(service.send);
  const groups = new GroupSteps(service);
  let workers = 0;

  const create = async (body: object): Promise<any> =>
    bodyOf(await service.send('POST', '/runs', { body: { image: 'i', ...body } }), 'OpRun', 201);
  /** A new worker that takes the run, which is the only one in the queue; undefined: it gets none. */
  const claim = async (): Promise<Held> => {
    const worker = `files-${(workers += 1)}`;
    const resources = { cpu_cores: 4, ram_mb: 1000, gpus: [] };
    const beat = { worker_id: worker, capabilities: ['artifacts'], resources, tags: [] };
    await service.send('POST', '/workers/heartbeat', { key: KEYS.worker, body: beat });
    const { body } = await service.send('POST', `/workers/${worker}/claim?max=1`, { key: KEYS.worker });
    const [op] = body.ops;
    return { op, headers: { 'X-Worker-Id': worker, 'X-Run-Attempt': String(op?.attempt ?? 1) } };
  };
  const urlsOf = async (held: Held, ...names: string[]): Promise<any> => {
    const path = `/runs/${held.op.id}/artifact-urls`;
    const answer = await service.send('POST', path, { ...as(held), body: { names } });
    return answer.status === 200 ? answer.body.urls : answer;
  };
  const end = async (held: Held, type: string, payload: object = {}, msg = ''): Promise<any> => {
    const path = `/runs/${held.op.id}/events`;
    const worker = held.headers['X-Worker-Id'];
    await service.send('POST', path, {
      ...as(held),
      body: { type: 'STARTED', msg: '', payload: { worker_id: worker } },
    });
    return bodyOf(await service.send('POST', path, { ...as(held), body: { type, msg, payload } }), 'OpRun');
  };
  const list = async (id: string): Promise<any[]> =>
    (await service.send('GET', `/runs/${id}/artifacts`, { key: KEYS.client })).body;
  const content = async (id: string, name: string): Promise<string> => {
    const path = `/runs/${id}/artifacts/${name}?redirect=false`;
    return text(bodyOf(await service.send('GET', path), 'FileUrl').url);
  };
  const leave = async (held: Held, contents: Readonly<Record<string, string>>): Promise<object> => {
    const urls = await urlsOf(held, ...Object.keys(contents));
    for (const [name, value] of Object.entries(contents)) {
      assert.equal((await files.put(urls[name], value)).status, 200);
    }
    return { artifacts: Object.keys(contents).map((name) => ({ name, path: `/out/${name}`, bytes: 1 })) };
  };
  const passDays = async (days: number): Promise<void> => {
    const by = `interval '1 day' * ${days}`;
    await service.dataSource.query(
      `update runs set created_at = created_at - ${by}, finished_at = finished_at - ${by}`,
    );
  };

  test('come from files and go to the store by URLs that nothing shows afterwards', async () => {
    const { id: file } = await files.stored('a,b\n');
    const out = { model: { path: '/out/model.bin' }, plots: { path: '/out/*.png' } };
    const run = await create({
      inputs: { table: { $artifact: { file } }, exact: 1 },
      outputs: { report: { $artifact: 'report' } },
      artifacts: { in: { '/data/a.csv': { file } }, out },
    });
    assert.deepEqual(run.inputs.table, { $artifact: { file } });
    const held = await claim();
    const { get } = held.op.artifacts.in['/data/a.csv'];
    assert.deepEqual([get.bytes, get.sha256], [4, hash('sha256', 'a,b\n')]);
    assert.deepEqual([await text(get.url), await text(held.op.inputs.table)], ['a,b\n', 'a,b\n']);
    const seen = (await service.send('GET', `/runs/${run.id}`, as(held))).body;
    assert.equal((await fetch(seen.outputs.report, { method: 'PUT', body: 'all is well' })).status, 200);
    assert.deepEqual((await service.send('GET', `/runs/${run.id}`)).body.outputs, {
      report: { $artifact: 'report' },
    });
    const report = await leave(held, { model: 'weights', 'plots/a/b.png': 'picture' });
    const outputs = {
      report: seen.outputs.report,
      text: `at ${seen.outputs.report}`,
      table: held.op.inputs.table,
    };
    const ended = await end(held, 'COMPLETED', { outputs, ...report }, `see ${seen.outputs.report}`);
    const hidden = `${seen.outputs.report.split('?')[0]}?***`;
    const shown = { report: { $artifact: 'report' }, text: `at ${hidden}`, table: { $artifact: { file } } };
    assert.deepEqual(ended.outputs, shown);
    assert.deepEqual(ended.events.at(-1).payload, { outputs: shown });
    assert.equal(ended.events.at(-1).msg, `see ${hidden}`);
    assert.deepEqual(
      (await list(run.id)).map(({ name, bytes, state }) => [name, bytes, state]),
      [
        ['model', 7, 'stored'],
        ['plots/a/b.png', 7, 'stored'],
        ['report', 11, 'stored'],
      ],
    );
    assert.equal(await content(run.id, 'plots/a/b.png'), 'picture');
    assert.equal(await content(run.id, 'plots%2Fa%2Fb.png'), 'picture');
    const [{ dump }] = await service.dataSource.query(
      `select string_agg(t, ' ') as dump
         from (
           select row_to_json(r)::text as t from runs r
            union all
           select row_to_json(e)::text from events e
            union all
           select row_to_json(a)::text from audit_entries a
         ) all_rows`,
    );
    assert.ok(!dump.includes('signature='));
  });

  test('of an attempt do not change after its end, nor are they those of an earlier or later one', async () => {
    const out = { model: { path: '/out/model.bin' } };
    const { id } = await create({ artifacts: { out }, retry_policy: { max_attempts: 2 } });
    const first = await claim();
    const { model: early } = await urlsOf(first, 'model');
    await end(first, 'FAILED', await leave(first, { model: 'of the first' }));
    assert.equal(await content(id, 'model'), 'of the first');
    const second = await claim();
    assert.equal((await files.put(early, 'too late')).status, 409);
    const lost = `Run '${id}' is not assigned to worker '${first.headers['X-Worker-Id']}'`;
    assertError(await urlsOf(first, 'model'), 409, lost);
    await end(second, 'COMPLETED', await leave(second, { model: 'of the second' }));
    assert.equal((await files.put(early, 'too late')).status, 409);
    assert.equal(await content(id, 'model'), 'of the second');
    assert.deepEqual(
      (await list(id)).map(({ attempt }) => attempt),
      [2],
    );
  });

  test('that the store does not have are missing, and a report of what the run does not leave is refused', async () => {
    const { id } = await create({ artifacts: { out: { model: { path: '/m' } } } });
    const held = await claim();
    const path = `/runs/${id}/events`;
    const body = { type: 'COMPLETED', msg: '', payload: { artifacts: [{ name: 'other' }] } };
    const refused = await service.send('POST', path, { ...as(held), body });
    assert.equal(refused.status, 400, refused.text);
    const errors = ['payload.artifacts[0].name: the run leaves nothing of this name'];
    assert.deepEqual(refused.body.errors, errors);
    await end(held, 'COMPLETED', { artifacts: [{ name: 'model' }] });
    assert.deepEqual(
      (await list(id)).map(({ name, state }) => [name, state]),
      [['model', 'missing']],
    );
    const missing = await service.send('GET', `/runs/${id}/artifacts/model`);
    assertError(missing, 404, `Run ${id} has no artifact 'model'`);
  });

  test('of other runs are refused unless they are there, and a run whose file has gone FAILS without a worker', async () => {
    const { id: file } = await files.create({ name: 'f', bytes: 1 }).then(({ body }) => body);
    const place = 'artifacts.in["/f"]';
    for (const [source, problem] of [
      [{ file: NOBODY }, `${place}: there is no such file`],
      [{ file }, `${place}: the file is not uploaded yet`],
      [{ run: NOBODY, name: 'x' }, `${place}: there is no run '${NOBODY}'`],
      [{ store: 'none', key: 'k' }, `${place}.store: there is no store 'none'`],
      [{ url: 'http://a/', sha256: 'a'.repeat(64) }, /begins with https:/],
      [{ file, run: NOBODY }, /must have one of/],
    ] as const) {
      const body = { image: 'i', artifacts: { in: { '/f': source } } };
      const { status, body: error } = await service.send('POST', '/runs', { body });
      assert.equal(status, 400);
      if (typeof problem === 'string') assert.deepEqual(error.errors, [problem]);
      else assert.match(error.errors.join(), problem);
    }
    const stored = await files.stored('x');
    const { id } = await create({ artifacts: { in: { '/f': { file: stored.id } } } });
    assert.equal((await service.send('DELETE', `/files/${stored.id}`)).status, 409);
    await service.dataSource.query(`update files set state = 'removed', removed_at = now() where id = $1`, [
      stored.id,
    ]);
    assert.equal((await claim()).op, undefined);
    const { body: run } = await service.send('GET', `/runs/${id}`);
    assert.deepEqual([run.state, run.execution_summary.cause], ['FAILED', 'error']);
    assert.equal(run.execution_summary.error_message, `${place}: the file is gone`);
  });

  test('pass from member to member of a group, also as the value of an output', async () => {
    const out = { table: { path: '/out/t.csv' } };
    const group = await groups.create({
      runs: [
        { ref: 'a', image: 'i', outputs: { log: { $artifact: 'log' } }, artifacts: { out } },
        {
          ref: 'b',
          image: 'i',
          depends_on: [{ ref: 'a' }],
          inputs: { log: { $from: { ref: 'a', output: '/log' } } },
          artifacts: { in: { '/in': { ref: 'a', name: 'table' } } },
        },
      ],
    });
    const a = await claim();
    const seen = (await service.send('GET', `/runs/${a.op.id}`, as(a))).body;
    await fetch(seen.outputs.log, { method: 'PUT', body: 'line' });
    await end(a, 'COMPLETED', await leave(a, { table: 'rows' }));
    const { id } = (await groups.members(group.id)).get('b');
    await groups.untilReady(id);
    assert.deepEqual((await service.send('GET', `/runs/${id}`)).body.inputs.log, {
      $artifact: { run: a.op.id, name: 'log' },
    });
    const b = await claim();
    assert.equal(await text(b.op.artifacts.in['/in'].get.url), 'rows');
    assert.equal(await text(b.op.inputs.log), 'line');
    await end(b, 'COMPLETED');
  });

  test('of clients are kept as long as a version of a definition or a schedule names them', async () => {
    const { id } = await files.stored('x');
    const artifacts = { in: { '/f': { file: id } } };
    const definition = { id: 'with-file', version: '1', image: 'i', artifacts };
    const refused = { ...definition, artifacts: { in: { '/f': { file: NOBODY } } } };
    assertInvalid(await service.send('POST', '/definitions', { body: refused }), [
      `artifacts: there is no file '${NOBODY}'`,
    ]);
    assert.equal((await service.send('POST', '/definitions', { body: definition })).status, 201);
    const schedule = { cron: ['0 0 1 1 *'], run: { image: 'i', artifacts } };
    assert.equal((await service.send('PUT', '/schedules/with-file', { body: schedule })).status, 201);
    assert.equal((await files.get(id)).used_by, 2);
    assert.equal((await service.send('DELETE', `/files/${id}`)).status, 409);
    const other = { ...schedule, run: { image: 'i' } };
    assert.equal((await service.send('PUT', '/schedules/with-file', { body: other })).status, 200);
    assert.equal((await service.send('DELETE', '/definitions/with-file?all=true')).status, 204);
    assert.equal((await files.get(id)).used_by, 0);
    assert.equal((await service.send('DELETE', `/files/${id}`)).status, 204);
  });

  test('go before their run, those of other attempts earlier, and a sweep takes what nothing owns', async () => {
    const out = { model: { path: '/m' } };
    const { id } = await create({ artifacts: { out }, retry_policy: { max_attempts: 2 } });
    const first = await claim();
    await end(first, 'FAILED', await leave(first, { model: '1' }));
    const second = await claim();
    await end(second, 'COMPLETED', await leave(second, { model: '2' }));
    const store = service.app.get(Stores).main ?? assert.fail('there is a store');
    const objects = async () => (await store.list(`runs/${id}/`, { limit: 10 })).map(({ key }) => key);
    const removal = service.app.get(ObjectRemovalJob);
    const in2h = new Date(Date.now() + DAY_MS / 12);
    await removal.runOnce(in2h);
    assert.deepEqual(await objects(), [`runs/${id}/2/model`]);
    await passDays(2);
    const retention = service.app.get(RunRetention);
    await retention.runOnce(new Date());
    assert.equal((await service.send('GET', `/runs/${id}`)).status, 200);
    await removal.runOnce(in2h);
    assert.deepEqual(await objects(), []);
    await retention.runOnce(new Date());
    assert.equal((await service.send('GET', `/runs/${id}`)).status, 404);

    await store.write(`runs/${id}/2/model`, 'late');
    const sweep = service.app.get(StoreSweepJob);
    const kept = await files.stored('kept');
    assert.equal(await sweep.runOnce(new Date(Date.now() + 7 * DAY_MS)), 0);
    assert.deepEqual(await objects(), [`runs/${id}/2/model`]);
    await store.write('.longshore', NOBODY);
    assert.equal(await sweep.runOnce(new Date(Date.now() + 9 * DAY_MS)), 0);
    await store.write('.longshore', '');
    await store.remove(['.longshore']);
    await sweep.runOnce(new Date(Date.now() + 9 * DAY_MS));
    assert.deepEqual(await objects(), []);
    assert.equal((await files.get(kept.id)).state, 'stored');
  });
});
