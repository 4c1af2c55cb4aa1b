import assert from 'node:assert/strict';
import { beforeAll, describe, it } from 'vitest';
import { freshTrace } from '../../support/app/traced-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('the traceparent of a run, in a service that does not trace itself', () => {
  const app = useTestApp();
  let priority = 0;

  beforeAll(async () => {
    await app.send('POST', '/workers/heartbeat', {
      body: { worker_id: 'w', resources: { cpu_cores: 4, ram_mb: 4096, gpus: [] }, tags: [] },
    });
    await app.send('POST', '/definitions', { body: { id: 'templated', version: '1', image: 'i' } });
  });

  /** Claims the newest run, which has the highest priority. */
  const claim = async (headers: Record<string, string> = {}) =>
    (await app.send('POST', '/workers/w/claim', { headers })).body.ops[0];

  // oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
  const create = async (headers: Record<string, string>, path = '/runs'): Promise<any> => {
    priority += 1;
    const body = path === '/runs' ? { image: 'i', priority } : { priority };
    const answer = await app.send('POST', path, { body, headers });
    assert.equal(answer.status, 201, answer.text);
    return answer.body;
  };

  for (const path of ['/runs', '/definitions/templated/runs']) {
    it(`is the client's for POST ${path}, and the worker is told it`, async () => {
      const { traceparent } = freshTrace();
      const run = await create({ traceparent, tracestate: 'a=1,b=2' }, path);
      assert.equal(run.traceparent, traceparent);
      assert.equal((await app.send('GET', `/runs/${run.id}`)).body.traceparent, traceparent);
      const op = await claim();
      assert.deepEqual([op.id, op.traceparent, op.tracestate], [run.id, traceparent, 'a=1,b=2']);
    });
  }

  it("is the client's for each run of POST /runs/batch", async () => {
    const { traceparent } = freshTrace('00');
    const body = { runs: [{ image: 'i' }, { image: 'i' }] };
    const { results } = (await app.send('POST', '/runs/batch', { body, headers: { traceparent } })).body;
    assert.deepEqual(
      results.map(({ run }: { run: { traceparent: string } }) => run.traceparent),
      [traceparent, traceparent],
    );
  });

  for (const [title, headers] of [
    ['is given', {}],
    ['is valid', { traceparent: '00-abc-01' }],
    ['but a tracestate is given', { tracestate: 'a=1' }],
  ] as const) {
    it(`is absent from every answer when none ${title}`, async () => {
      const run = await create(headers);
      assert.equal('traceparent' in run, false);
      const op = await claim();
      assert.equal(op.id, run.id);
      assert.deepEqual(Object.keys(op).toSorted(), ['attempt', 'constraints', 'id', 'image', 'inputs']);
    });
  }

  it('stays the first one when the request is sent again under its key', async () => {
    const [first, second] = [freshTrace(), freshTrace()];
    const body = { image: 'i' };
    const send = (traceparent: string) =>
      app.send('POST', '/runs', { body, headers: { traceparent, 'Idempotency-Key': 'trace-1' } });
    assert.equal((await send(first.traceparent)).body.traceparent, first.traceparent);
    const again = await send(second.traceparent);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.equal(again.body.traceparent, first.traceparent);
  });

  it('stays through retries, and comes again with a claim that is sent again', async () => {
    const { traceparent } = freshTrace();
    const run = await create({ traceparent });
    await claim();
    const later = { traceparent: freshTrace().traceparent };
    const retried = await app.send('POST', `/runs/${run.id}/retry`, { headers: later });
    assert.equal(retried.body.traceparent, traceparent);
    const keyed = { ...later, 'Idempotency-Key': 'claim-1' };
    const [op, again] = [await claim(keyed), await claim(keyed)];
    assert.deepEqual([op.id, op.attempt, op.traceparent], [run.id, 2, traceparent]);
    assert.deepEqual(again, op);
  });
});
