import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import type { ReceivedSpan } from '../../support/monitoring/otlp-decode.js';
import { freshTrace, linkTo, placeOf, startTracedApp, type TracedApp } from '../../support/app/traced-app.js';

const SERVER = 2;

describe('traces of the service', () => {
  let app: TracedApp;

  beforeAll(async () => {
    app = await startTracedApp();
  });

  afterAll(() => app.close());

  const heartbeat = (id: string): Promise<unknown> =>
    app.send('POST', '/workers/heartbeat', {
      body: { worker_id: id, resources: { cpu_cores: 4, ram_mb: 4096, gpus: [] }, tags: [] },
    });

  const serverSpan = (traceId: string): Promise<ReceivedSpan> =>
    app.collector.find(
      `of the server in ${traceId}`,
      (span) => span.kind === SERVER && span.traceId === traceId,
    );

  const child = (parent: ReceivedSpan, name: string): Promise<ReceivedSpan> =>
    app.collector.find(
      `${name} under ${parent.name}`,
      (span) => span.name === name && span.parentSpanId === parent.spanId && span.traceId === parent.traceId,
    );

  for (const [title, method, path, key, status, name] of [
    ['a route', 'GET', '/runs?limit=3', undefined, 200, 'GET /runs'],
    ['a route with a parameter', 'GET', '/runs/none', undefined, 404, 'GET /runs/{id}'],
    ['a request without a key', 'POST', '/runs', null, 401, 'POST /runs'],
    ['a refused query', 'GET', '/runs?limit=x', undefined, 400, 'GET /runs'],
    ['a path that is no route', 'GET', '/nothing/here', undefined, 404, 'GET'],
    ["Swagger UI's description, by way of Express", 'GET', '/docs-json', null, 200, 'GET /docs-json'],
  ] as const) {
    it(`go on with the client's for ${title}`, async () => {
      const trace = freshTrace();
      const headers = { traceparent: trace.traceparent };
      const answer = await app.send(method, path, { headers, ...(key === undefined ? {} : { key }) });
      assert.equal(answer.status, status);
      const span = await serverSpan(trace.traceId);
      assert.equal(span.name, name);
      assert.equal(span.parentSpanId, trace.spanId);
      const { attributes } = span;
      assert.equal(attributes['http.request.method'], method);
      assert.equal(attributes['url.path'], path.split('?')[0]);
      assert.equal(attributes['http.route'], name.split(' ')[1]);
      assert.equal(attributes['http.response.status_code'], status);
      assert.equal(attributes['longshore.request_id'], answer.headers.get('x-request-id'));
      assert.equal(span.status, 0, 'a refusal is no failure of the service');
    });
  }

  it('leave out what machines ask about the service itself, and what the client does not record', async () => {
    const quiet = [freshTrace(), freshTrace(), freshTrace(), freshTrace('00')];
    for (const [n, path] of ['/health', '/health/live', '/metrics?x', '/runs'].entries()) {
      await app.send('GET', path, { headers: { traceparent: quiet[n]?.traceparent ?? '' } });
    }
    const last = freshTrace();
    await app.send('GET', '/runs', { headers: { traceparent: last.traceparent } });
    await serverSpan(last.traceId);
    assert.deepEqual(
      app.collector.spans.filter(({ traceId }) => quiet.some((span) => span.traceId === traceId)),
      [],
    );
  });

  it('begin anew without a traceparent, and with one that is not valid', async () => {
    const headers = { traceparent: 'rubbish', 'x-request-id': 'rubbish-1' };
    assert.equal((await app.send('GET', '/runs', { headers })).status, 200);
    const span = await app.collector.find(
      'anew',
      (found) => found.attributes['longshore.request_id'] === 'rubbish-1',
    );
    assert.equal(span.parentSpanId, '');
  });

  it('show the way of a change through the journal: the group points to its requests, and they to it', async () => {
    const traces = Array.from({ length: 5 }, () => freshTrace());
    await Promise.all(
      traces.map(({ traceparent }) =>
        app.send('POST', '/runs', {
          body: { image: 'traced', inputs: { secret: 'hush' } },
          headers: { traceparent },
        }),
      ),
    );
    for (const { traceId } of traces) {
      const request = await serverSpan(traceId);
      const part = await child(request, 'journal');
      const [toGroup] = part.links;
      assert.ok(toGroup);
      const group = await app.collector.find('of the group', ({ spanId }) => spanId === toGroup.spanId);
      assert.equal(group.name, 'journal group');
      assert.equal(group.parentSpanId, '', 'a group belongs to no single request');
      assert.notEqual(group.traceId, traceId);
      assert.ok(
        group.links.some((link) => link.spanId === request.spanId && link.traceId === traceId),
        'the group points to the request',
      );
      const { attributes } = group;
      assert.equal(attributes['longshore.journal.commands'], group.links.length);
      assert.equal(attributes['longshore.journal.creations'], group.links.length);
      assert.equal(attributes['longshore.journal.try'], 1);
      assert.ok(Number(attributes['longshore.journal.bytes']) > 0);
      assert.ok(part.start <= group.start && part.end >= group.start);
      assert.ok(Number(part.attributes['longshore.journal.queued_ms']) >= 0);
      const insert = await child(group, 'INSERT runs');
      assert.equal(insert.attributes['db.system.name'], 'postgresql');
      await child(group, 'COMMIT');
    }
    assert.doesNotMatch(
      JSON.stringify(app.collector.spans, (_, value) => (typeof value === 'bigint' ? '' : value)),
      /hush/,
    );
  });

  it('count a bulk request once in each group', async () => {
    const { traceId, traceparent } = freshTrace();
    const body = { runs: Array.from({ length: 20 }, () => ({ image: 'many' })) };
    const answer = await app.send('POST', '/runs/batch', { body, headers: { traceparent } });
    const request = await serverSpan(traceId);
    const part = await child(request, 'journal');
    assert.equal(part.attributes['longshore.journal.commands'], 20);
    const group = await app.collector.find('of the group', ({ spanId }) => spanId === part.links[0]?.spanId);
    assert.deepEqual(group.links, [linkTo(request)]);
    for (const { run } of answer.body.results) assert.equal(run.traceparent, placeOf(request));
  });

  it('reach from the creation of a run by way of its claim to its worker', async () => {
    const worker = freshTrace();
    const client = freshTrace();
    await heartbeat('tracer');
    const created = await app.send('POST', '/runs', {
      body: { image: 'followed', priority: 1000 },
      headers: { traceparent: client.traceparent, tracestate: 'vendor=7' },
    });
    const request = await serverSpan(client.traceId);
    assert.equal(
      created.body.traceparent,
      placeOf(request),
      'what the run brings about belongs under its creation',
    );
    const claimed = await app.send('POST', '/workers/tracer/claim', {
      headers: { traceparent: worker.traceparent },
    });
    const [op] = claimed.body.ops;
    assert.equal(op.id, created.body.id);
    assert.equal(op.traceparent, placeOf(request));
    assert.equal(op.tracestate, 'vendor=7');
    const claimRequest = await serverSpan(worker.traceId);
    assert.equal(claimRequest.attributes['longshore.held'], undefined);
    const claim = await child(claimRequest, 'claim');
    assert.deepEqual(claim.links, [linkTo(request)]);
    assert.equal(claim.attributes['longshore.worker.id'], 'tracer');
    assert.equal(claim.attributes['longshore.claim.runs'], 1);
    await child(claim, 'journal');
    const queued = await child(request, 'run queued');
    assert.equal(queued.attributes['longshore.run.id'], op.id);
    assert.ok(queued.end >= queued.start);
  });

  it('mark requests that are held by intent', async () => {
    await heartbeat('holder');
    for (const [method, path] of [
      ['POST', '/workers/nobody/claim?wait=1'],
      ['GET', '/feed?topic=quiet&wait=1'],
    ] as const) {
      const { traceId, traceparent } = freshTrace();
      assert.equal((await app.send(method, path, { headers: { traceparent } })).status, 200);
      const span = await serverSpan(traceId);
      assert.equal(span.attributes['longshore.held'], true);
      assert.ok(span.end - span.start > 900_000_000n);
    }
    const { traceId, traceparent } = freshTrace();
    const gone = new AbortController();
    const stream = await fetch(`${app.url}/feed/stream?topic=quiet`, {
      headers: { traceparent, 'X-API-Key': 'test-admin-key-of-the-tests' },
      signal: gone.signal,
    });
    assert.equal(stream.status, 200);
    gone.abort();
    const span = await serverSpan(traceId);
    assert.equal(span.name, 'GET /feed/stream');
    assert.equal(span.attributes['longshore.held'], true);
    assert.equal(span.attributes['longshore.broken_off'], true);
  });

  it('are named in the lines that the log has of a request', async () => {
    const { traceId, traceparent } = freshTrace();
    const body = { name: 'traced', scopes: ['client'] };
    assert.equal((await app.send('POST', '/api-keys', { body, headers: { traceparent } })).status, 201);
    const span = await serverSpan(traceId);
    const line = app.logged.find((entry) => entry['msg'] === 'created an API key');
    assert.equal(line?.['trace_id'], traceId);
    assert.equal(line?.['span_id'], span.spanId);
  });
});
