import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import { bodyOf, assertInvalid } from '../../support/http/answer-shapes.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { KEYS, type TestAnswer, type TestRequest } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const literal = fc.oneof(
  fc.constantFrom(
    '1795358081062000000',
    '1.0',
    '-0',
    '1e400',
    '-1e-400',
    '1E+2',
    '0.30000000000000000000000000004',
  ),
  fc.stringMatching(/^-?(?:0|[1-9][0-9]{0,40})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?$/),
);
const key = fc.oneof(
  fc.nat({ max: 30 }).map(String),
  fc.constantFrom('__proto__', 'toJSON', 'constructor', 'é"\\', '4294967295'),
  fc.stringMatching(/^[a-z_ ]{0,5}$/),
);
const { object } = fc.letrec<{ object: string; value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    literal,
    fc.constantFrom('null', 'true', '"a\\nb"', '"\u2028 "', '[]', '{}'),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join()}]`),
    tie('object'),
  ),
  object: fc
    .uniqueArray(fc.tuple(key, tie('value')), { maxLength: 4, selector: ([name]) => name })
    .map((members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join()}}`),
}));

describe('free-form JSON', () => {
  const service = useTestApp();

  const send = async (method: string, path: string, request?: TestRequest): Promise<TestAnswer> => {
    const answer = await service.send(method, path, request);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`);
    return answer;
  };
  const post = (path: string, body: string): Promise<TestAnswer> => send('POST', path, { body });

  /** A new run, held by a worker of its own. */
  async function held(
    body: string,
  ): Promise<{ readonly id: string; readonly claim: string; readonly worker: string }> {
    const { id } = (await post('/runs', body)).body;
    const worker = `w-${id}`;
    await post('/workers/heartbeat', heartbeat(worker));
    const claim = (await send('POST', `/workers/${worker}/claim`)).text;
    assert.ok(claim.includes(id), 'the worker got the run');
    return { id, claim, worker };
  }

  test('keeps its digits and the order of its keys from the creation of a run to its end', async () => {
    let n = 0;
    await fc.assert(
      fc.asyncProperty(
        object,
        object,
        object,
        fc.constantFrom('', ' ', '\n'),
        async (inputs, template, outputs, space) => {
          const topic = `t${(n += 1)}`;
          const body = `{"image":"i","inputs":${space}${inputs},"outputs":${template}${space},"event_delivery":{"topic":"${topic}"}}`;
          const fields = `"inputs":${inputs},"outputs":${template},`;
          const created = await post('/runs', body);
          assert.ok(created.text.includes(fields), created.text);
          const { id } = created.body;
          await send('POST', `/runs/${id}/cancel`);

          const { id: taken, claim, worker } = await held(body);
          assert.ok(claim.includes(`"inputs":${inputs},`), claim);
          const running = `{"id":"${taken}","image":"i","inputs":${inputs},"constraints":${outputs}}`;
          await post('/workers/heartbeat', heartbeat(worker, running));
          const workers = (await send('GET', '/workers')).text;
          assert.ok(workers.includes(`"inputs":${inputs},"constraints":${outputs}`), workers);

          await post(`/runs/${taken}/events`, started(worker));
          await post(`/runs/${taken}/events`, `{"type":"NOTE","msg":"m","payload":${template}}`);
          const payload = `{"x":${inputs},"outputs":${outputs}}`;
          const done = await post(
            `/runs/${taken}/events`,
            `{"type":"COMPLETED","msg":"","payload":${payload}}`,
          );
          const run = (await send('GET', `/runs/${taken}`)).text;
          assert.equal(run, done.text);
          assert.ok(run.includes(`"inputs":${inputs},"outputs":${outputs},`), run);
          for (const text of [
            run,
            await textOf(`/runs/${taken}/events`),
            await textOf(`/runs/${taken}/attempts`),
          ]) {
            assert.ok(text.includes(`"payload":${template}`), text);
            assert.ok(text.includes(`"payload":${payload}`), text);
          }
          const list = await textOf('/runs?limit=2');
          assert.ok(list.includes(fields) && list.includes(`"outputs":${outputs},`), list);
          const page = await textOf(`/feed?topic=${topic}`);
          assert.ok(page.includes(`"payload":${payload}`), page);
          assert.ok(
            (await streamed(`/feed/stream?topic=${topic}`, 'COMPLETED')).includes(`"payload":${payload}`),
          );
        },
      ),
      { numRuns: 15 },
    );
  });

  test('is kept in bulk requests, changes by an admin and the audit log', async () => {
    await fc.assert(
      fc.asyncProperty(object, object, async (inputs, outputs) => {
        const item = `{"image":"i","inputs":${inputs}}`;
        const batch = await post('/runs/batch', `{"runs":[${item},{"image":"i"}]}`);
        assert.ok(batch.text.includes(`"inputs":${inputs},`), batch.text);
        const { id } = batch.body.results[0].run;
        const change = await send('PATCH', `/runs/${id}`, { body: `{"outputs":${outputs}}` });
        assert.ok(change.text.includes(`"outputs":${outputs},`), change.text);
        await send('PATCH', `/runs/${id}`, { body: `{"outputs":${inputs},"state":"CANCELLED"}` });
        const audit = await textOf('/audit?limit=1');
        assert.ok(audit.replaceAll('" : ', '":').includes(`"outputs":${outputs}`), audit);
        assert.ok(audit.includes(`"outputs":${inputs}`), audit);
        for (const other of batch.body.results)
          await send('PATCH', `/runs/${other.run.id}`, { body: { state: 'CANCELLED' } });

        const { id: taken, worker } = await held('{"image":"i"}');
        const reports = [
          started(worker),
          `{"type":"NOTE","msg":"","payload":${inputs}}`,
          `{"type":"COMPLETED","msg":"","payload":{"outputs":${outputs}}}`,
        ];
        const items = reports.map((event) => event.replace('{', `{"run_id":"${taken}","attempt":1,`));
        await post(`/workers/${worker}/events`, `{"events":[${items.join()}]}`);
        const run = await textOf(`/runs/${taken}`);
        assert.ok(run.includes(`"outputs":${outputs},`) && run.includes(`"payload":${inputs}`), run);
      }),
      { numRuns: 10 },
    );
  });

  test('is kept as the default of an input, in the definition and in its runs', async () => {
    await fc.assert(
      fc.asyncProperty(object, literal, async (any, number) => {
        const specs = `{"n":{"type":"number","default":${number}},"o":{"type":"object","default":${any}},"g":{"type":"object","required":true}}`;
        const stored = await post(
          '/definitions',
          `{"id":"exact","version":"1","image":"i","input_specs":${specs}}`,
        );
        for (const text of [stored.text, await textOf('/definitions/exact'), await textOf('/definitions')]) {
          assert.ok(text.includes(`"default":${number}}`) && text.includes(`"default":${any}}`), text);
        }
        const { text } = await post('/definitions/exact/runs', `{"inputs":{"g":${any}}}`);
        assert.ok(text.includes(`"inputs":{"g":${any},"n":${number},"o":${any}},`), text);
        const given = await post('/definitions/exact/runs', `{"inputs":{"o":{},"g":${any},"n":${number}}}`);
        assert.ok(given.text.includes(`"inputs":{"o":{},"g":${any},"n":${number}},`), given.text);
      }),
      { numRuns: 15 },
    );
    const wrong = await service.send('POST', '/definitions', {
      body: '{"id":"exact","version":"1","image":"i","input_specs":{"n":{"type":"string","default":1e400}}}',
    });
    assertInvalid(wrong, ['input_specs.n.default must be a string']);
  });

  test('is compared by the exact value of its numbers under an idempotency key', async () => {
    const headers = { 'Idempotency-Key': 'exact' };
    const create = (number: string): Promise<TestAnswer> =>
      service.send('POST', '/runs', { body: `{"image":"i","inputs":{"n":${number}}}`, headers });
    const first = bodyOf(await create('12345678901234567890'), 'OpRun', 201);
    for (const same of ['12345678901234567890', '12345678901234567890.0', '1234567890123456789e1']) {
      const { status, body } = await create(same);
      assert.deepEqual([status, body.id], [201, first.id]);
    }
    assert.equal((await create('12345678901234567891')).status, 409);
  });

  test('is not typed: numbers of typed fields that would be altered are refused', async () => {
    const { id } = (await post('/runs', '{"image":"i"}')).body;
    for (const number of ['9007199254740993', '1e400', '-1e400', '1e-400']) {
      const refused = async (path: string, body: string, ...errors: string[]): Promise<void> =>
        assertInvalid(await service.send('POST', path, { body }), errors);
      await refused(
        '/runs',
        `{"image":"i","inputs":{"n":1.0},"priority":${number}}`,
        'priority must be an integer from -2147483648 to 2147483647',
      );
      await refused(
        '/runs',
        `{"image":"i","constraints":{"cpu":${number}}}`,
        'constraints.cpu must be an integer from 0 to 2147483647',
      );
      await refused(
        `/runs/${id}/events`,
        `{"type":"FAILED","msg":"","payload":{"exit_code":${number}}}`,
        'payload.exit_code must be an integer from 0 to 255',
      );
      const note = await service.send('POST', `/runs/${id}/events`, {
        body: `{"type":"NOTE","msg":${number}}`,
      });
      assert.equal(note.status, 400, number);
    }
  });

  async function textOf(path: string): Promise<string> {
    return (await send('GET', path)).text;
  }

  /** What a stream sends until it holds the text. */
  async function streamed(path: string, text: string): Promise<string> {
    const connection = await RawConnection.open(Number(new URL(service.url).port));
    connection.send(requestText('GET', path, { 'X-API-Key': KEYS.client }));
    await connection.has(text);
    connection.destroy();
    return connection.closed();
  }
});

function heartbeat(worker: string, running = ''): string {
  return `{"worker_id":"${worker}","resources":{"cpu_cores":1,"ram_mb":1,"gpus":[]},"tags":[],"running_ops":[${running}]}`;
}

function started(worker: string): string {
  return `{"type":"STARTED","msg":"","payload":{"worker_id":"${worker}"}}`;
}
