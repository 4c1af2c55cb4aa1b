import assert from 'node:assert/strict';
import type { JsonValue } from '@longshore/common/json/json-value';
import { describe, test } from 'vitest';
import { jsonText } from '@longshore/common/json/json-text';
import { PLAIN } from '../testing/fake-service.js';
import { CALL, IDLE_REPORT, REPORTER, SHOWN_RUN, StubService } from '../testing/service-calls.js';
import { NO_CONSTRAINTS } from './constraints.js';
import { readRun } from './read-answers.js';

const WORKER = 'rack/7:a';
const ASKED = { ...NO_CONSTRAINTS, ramMb: 1, vramMb: 2, cpuMillis: 3000, cpuLimitMillis: 3000 };
const CONSTRAINTS = { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: null };
const OP = { id: 'r', image: 'i', inputs: {}, constraints: CONSTRAINTS, attempt: 4 };
const TRACE = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'vendor=1',
};
const done = () => new Response(null, { status: 204 });

describe('a heartbeat', () => {
  const REPORT = {
    workerId: WORKER,
    resources: { cpuCores: 2, ramMb: 100, gpus: [{ id: 0, vramMb: 5, tags: ['a100'] }] },
    load: { name: 'slurm', pending: 1, running: 2 },
    tags: ['fast'],
    capabilities: ['env', 'registry'] as const,
    notClaiming: [{ reason: 'draining', message: 'm' }] as const,
    unable: [{ ability: 'gpus', message: 'n' }] as const,
    runningOps: [{ id: 'r', image: 'i', inputs: { a: 1 }, constraints: ASKED, attempt: 2 }],
    endingOps: [{ id: 'e', attempt: 3 }],
    containerEngine: { name: 'docker', version: '20.10', runtime: 'kata', runtime_version: null },
    awaySeconds: 9,
  };

  test('tells all of a worker, and is answered with the worker timeout and the limit of bodies', async () => {
    const headers = { 'X-Worker-Timeout': '7.5', 'X-Max-Body-Bytes': '1048576' };
    const service = new StubService(() => Response.json({ id: WORKER }, { headers }));
    const value = { workerTimeoutSeconds: 7.5, maxBodyBytes: 1_048_576, lostRuns: null, killedRuns: [] };
    assert.deepEqual(await service.api.heartbeat(REPORT, CALL), { kind: 'ok', value });
    assert.equal(service.received[0]?.route, 'POST /workers/heartbeat');
    assert.equal(service.received[0]?.headers.get('X-API-Key'), 'secret');
    assert.deepEqual(service.bodies(), [
      {
        worker_id: WORKER,
        resources: { cpu_cores: 2, ram_mb: 100, gpus: [{ id: 0, vram_mb: 5, tags: ['a100'] }] },
        tags: ['fast'],
        capabilities: ['env', 'registry'],
        engine: { name: 'slurm', pending: 1, running: 2 },
        container_engine: { name: 'docker', version: '20.10', runtime: 'kata' },
        not_claiming: [{ reason: 'draining', message: 'm' }],
        unable: [{ ability: 'gpus', message: 'n' }],
        away_s: 9,
        ending_ops: [{ id: 'e', attempt: 3 }],
        running_ops: [{ id: 'r', image: 'i', inputs: { a: 1 }, constraints: CONSTRAINTS, attempt: 2 }],
      },
    ]);
  });

  test('takes no other limits than positive numbers', async () => {
    for (const odd of ['soon', '0', '-1', 'Infinity', '']) {
      const headers = { 'X-Worker-Timeout': odd, 'X-Max-Body-Bytes': odd };
      const { api } = new StubService(() => Response.json({ id: WORKER }, { headers }));
      const unknown = { workerTimeoutSeconds: null, maxBodyBytes: null, lostRuns: null, killedRuns: [] };
      assert.deepEqual(await api.heartbeat(REPORT, CALL), { kind: 'ok', value: unknown });
    }
  });

  test('that waits reads the lost runs and those to be killed, and ignores what has another shape', async () => {
    const lost = { id: 'r', state: 'PENDING', attempt: 3, worker_id: null };
    const others = [5, null, { ...lost, attempt: 'x' }, { ...lost, id: 7 }, { id: 'r' }];
    const { api, received } = new StubService({
      id: 'w',
      lost_ops: [lost, { ...lost, worker_id: 'b' }, ...others],
      kill_ops: [{ id: 'k', attempt: 2 }, { id: 'k' }, null],
    });
    const answer = await api.heartbeat(IDLE_REPORT, { ...CALL, waitSeconds: 7 });
    const read = { id: 'r', state: 'PENDING', currentAttempt: 3 };
    assert.deepEqual(answer.kind === 'ok' && answer.value.lostRuns, [
      { ...read, workerId: null },
      { ...read, workerId: 'b' },
    ]);
    assert.deepEqual(answer.kind === 'ok' && answer.value.killedRuns, [{ id: 'k', attempt: 2 }]);
    assert.equal(received[0]?.route, 'POST /workers/heartbeat?wait=7');
  });
});

describe('a claim', () => {
  test('is for a worker id with slashes and colons, under an idempotency key, and reads all of its runs', async () => {
    const given = { env: { A: '1' }, command: ['c'], secrets: { B: 'b' }, image_pull_secret: 'login' };
    const ops = [
      { ...OP, ...given },
      { ...OP, constraints: { ...CONSTRAINTS, gpu_id: 0 }, ...TRACE },
      { ...OP, traceparent: 'rubbish' },
    ];
    const { api, received } = new StubService({ ops });
    const plain = { id: 'r', image: 'i', inputs: {}, constraints: ASKED, attempt: 4, container: PLAIN };
    assert.deepEqual(await api.claim(WORKER, 'key-1', CALL), {
      kind: 'ok',
      value: [
        { ...plain, container: { ...PLAIN, ...given }, trace: null },
        { ...plain, constraints: { ...ASKED, gpuIds: [0] }, trace: TRACE },
        { ...plain, trace: null },
      ],
    });
    await api.claim('w', 'k', { ...CALL, waitSeconds: 20 });
    assert.deepEqual(
      received.map(({ route }) => route),
      ['POST /workers/rack%2F7%3Aa/claim', 'POST /workers/w/claim?wait=20'],
    );
    assert.equal(received[0]?.headers.get('Idempotency-Key'), 'key-1');
  });

  test('takes no run whose options it does not understand', async () => {
    const { api } = new StubService({ ops: [OP, { ...OP, command: 'c' }] });
    assert.equal((await api.claim('w', 'k', CALL)).kind, 'unreachable');
  });
});

test('reads a run without its events, and no other run', async () => {
  const service = new StubService(SHOWN_RUN);
  assert.deepEqual(await service.api.getRun('r'), { kind: 'ok', value: readRun(SHOWN_RUN, 'r') });
  assert.equal(service.received[0]?.route, 'GET /runs/r?include_events=false');
  for (const other of [{ id: 'other' }, { execution_summary: undefined }, { state: 1 }]) {
    service.answer = () => Response.json({ ...SHOWN_RUN, ...other });
    assert.equal((await service.api.getRun('r')).kind, 'unreachable');
  }
});

test('sends an event with worker, attempt and idempotency key', async () => {
  const service = new StubService(done);
  const reporter = { workerId: WORKER, attempt: 2, idempotencyKey: 'key-2', trace: TRACE };
  const sent = await service.api.postEvent('r', { type: 'PROGRESS', msg: 5 }, reporter);
  assert.deepEqual(sent, { kind: 'ok', value: null });
  service.answer = () => Response.json(SHOWN_RUN);
  const unknown = { ...reporter, attempt: null, trace: null };
  const other = await service.api.postEvent('r', { type: 'A', msg: '', payload: { x: 1 } }, unknown);
  assert.equal(other.kind, 'ok');
  const [first, second] = service.received;
  assert.equal(first?.route, 'POST /runs/r/events');
  const named = [
    'X-Worker-Id',
    'X-Run-Attempt',
    'Prefer',
    'Idempotency-Key',
    'traceparent',
    'tracestate',
  ] as const;
  assert.deepEqual(
    named.map((name) => first?.headers.get(name)),
    [WORKER, '2', 'return=minimal', 'key-2', TRACE.traceparent, TRACE.tracestate],
  );
  assert.deepEqual(
    named.map((name) => second?.headers.get(name)),
    [WORKER, null, 'return=minimal', 'key-2', null, null],
  );
  assert.deepEqual(service.bodies(), [
    { type: 'PROGRESS', msg: 5 },
    { type: 'A', msg: '', payload: { x: 1 } },
  ]);
});

test('sends a log chunk under its number, with its worker', async () => {
  const service = new StubService({ next_chunk: 4, next_line: 12 });
  const address = { runId: 'r', attempt: 2, workerId: WORKER, number: 3 };
  const t = '2026-01-02T03:04:05.678Z';
  const lines = [
    { atMs: Date.parse(t), stream: 'stdout', text: 'a', isContinued: false },
    { atMs: Date.parse(t), stream: 'stderr', text: '', isContinued: true },
  ] as const;
  const chunk = { firstLine: 10, lines, skippedBytes: 7, isLast: false };
  const stored = await service.api.putLogChunk(address, chunk, CALL.signal);
  assert.deepEqual(stored, { kind: 'ok', value: { nextChunk: 4, nextLine: 12 } });
  const last = { firstLine: 12, lines: [], skippedBytes: 0, isLast: true };
  await service.api.putLogChunk(address, last, CALL.signal);
  const [request] = service.received;
  assert.equal(request?.route, 'PUT /runs/r/logs/3');
  assert.equal(request.headers.get('X-Worker-Id'), WORKER);
  assert.equal(request.headers.get('X-Run-Attempt'), '2');
  assert.deepEqual(service.bodies(), [
    {
      first_line: 10,
      lines: [
        { t, stream: 'stdout', text: 'a', continued: false },
        { t, stream: 'stderr', text: '', continued: true },
      ],
      skipped_bytes: 7,
      is_last: false,
    },
    { first_line: 12, lines: [], is_last: true },
  ]);
});

test('removes the worker by its encoded id, and passes on a refusal', async () => {
  const service = new StubService(done);
  assert.deepEqual(await service.api.removeWorker(WORKER), { kind: 'ok', value: null });
  assert.equal(service.received[0]?.route, 'DELETE /workers/rack%2F7%3Aa');
  const detail = 'it has runs';
  service.answer = () => Response.json({ detail }, { status: 409 });
  assert.deepEqual(await service.api.removeWorker('a'), { kind: 'refused', status: 409, detail });
});

test('reads what its key may do', async () => {
  const service = new StubService({ id: 'k', name: 'n', scopes: ['worker'], worker_ids: ['w1', 'gpu-*'] });
  const bound = { scopes: ['worker'], workerIds: ['w1', 'gpu-*'] };
  assert.deepEqual(await service.api.whoami(), { kind: 'ok', value: bound });
  service.answer = () => Response.json({ scopes: ['admin'], worker_ids: null });
  assert.deepEqual(await service.api.whoami(), { kind: 'ok', value: { scopes: ['admin'], workerIds: null } });
  for (const odd of [{}, { scopes: 'worker' }, { scopes: ['worker'], worker_ids: 'w1' }]) {
    service.answer = () => Response.json(odd);
    assert.equal((await service.api.whoami()).kind, 'unreachable');
  }
});

describe('secrets', () => {
  const HOLDER = { workerId: WORKER, attempt: 3 };

  test('are read with both fencing headers', async () => {
    const registry = { server: 's', username: 'u', password: 'p' };
    const service = new StubService({ env: { A: 'value' }, registry });
    const value = { env: { A: 'value' }, files: {}, registry };
    assert.deepEqual(await service.api.getSecrets('r', HOLDER), { kind: 'ok', value });
    const [request] = service.received;
    assert.equal(request?.route, 'GET /runs/r/secrets');
    assert.equal(request.headers.get('X-Worker-Id'), WORKER);
    assert.equal(request.headers.get('X-Run-Attempt'), '3');
    service.answer = () => Response.json({ env: { A: 'value' }, files: {}, registry: null });
    const without = { ...value, registry: null };
    assert.deepEqual(await service.api.getSecrets('r', HOLDER), { kind: 'ok', value: without });
  });

  test('of another shape are not quoted', async () => {
    const registry = { server: 'value' };
    const ODD: JsonValue[] = [{ env: { A: ['value'] } }, { env: {}, registry }, ['value']];
    for (const odd of ODD) {
      const answer = await new StubService(odd).api.getSecrets('r', HOLDER);
      assert.ok(answer.kind === 'unreachable' && !answer.reason.includes('value'), JSON.stringify(answer));
    }
  });
});

describe('numbers keep their digits', () => {
  const EXACT = '{"2":1795358081062000000,"1":[1.0,1e400]}';

  test('in the inputs and outputs of a run', async () => {
    const text = JSON.stringify({ ...SHOWN_RUN, inputs: 0, outputs: 0 });
    const exact = text.replaceAll(/"((?:in|out)puts)":0/g, `"$1":${EXACT}`);
    const run = await new StubService(() => new Response(exact)).api.getRun('r');
    assert.ok(run.kind === 'ok');
    assert.deepEqual([jsonText(run.value.inputs), jsonText(run.value.outputs)], [EXACT, EXACT]);
  });

  test('in the newest entries of a timeline', async () => {
    const entry = `{"id":4,"attempt":2,"t":"2026-01-01T00:00:00Z","type":"NOTE","msg":7,"payload":${EXACT}}`;
    const text = `{"id":"r","events":[${entry},{"type":"NOTE"}]}`;
    const { api } = new StubService(() => new Response(text));
    const timeline = await api.getTimeline('r');
    assert.ok(timeline.kind === 'ok');
    assert.deepEqual(
      timeline.value.map(({ payload, ...rest }) => ({ ...rest, payload: jsonText(payload ?? {}) })),
      [{ index: 4, attempt: 2, type: 'NOTE', msg: 7, payload: EXACT }],
    );
    assert.equal((await api.getTimeline('another')).kind, 'unreachable');
  });

  test('from the claim to the report', async () => {
    const ops = `{"ops":[{"id":"r","image":"i","inputs":${EXACT},"constraints":{"cpu":3.0},"attempt":1}]}`;
    const service = new StubService(() => new Response(ops));
    const claimed = await service.api.claim('w', 'k', CALL);
    assert.ok(claimed.kind === 'ok');
    const payload = { outputs: claimed.value[0]?.inputs ?? {} };
    await service.api.postEvent('r', { type: 'COMPLETED', msg: '', payload }, REPORTER);
    assert.equal(service.received[1]?.body, `{"type":"COMPLETED","msg":"","payload":{"outputs":${EXACT}}}`);
  });
});

describe('an older service', () => {
  const PAYLOAD = { outputs: { started_at: 1 }, started_at: 'a', finished_at: 'b' };

  test('gets no query that it would refuse, and a newer one all again', async () => {
    let lost: object = {};
    const { api, received } = new StubService(({ route }) =>
      Response.json({ ...SHOWN_RUN, ops: [], id: route.endsWith('/heartbeat') ? 'w' : 'r', ...lost }),
    );
    const routes = async (): Promise<readonly string[]> => {
      received.length = 0;
      await api.heartbeat(IDLE_REPORT, CALL);
      await api.claim('w', 'k', { ...CALL, max: 3 });
      await api.getRun('r');
      return received.slice(1).map(({ route }) => route);
    };
    assert.deepEqual(await routes(), ['POST /workers/w/claim', 'GET /runs/r']);
    lost = { lost_ops: [] };
    assert.deepEqual(await routes(), ['POST /workers/w/claim?max=3', 'GET /runs/r?include_events=false']);
  });

  test('that does not know the query shows a run with its events', async () => {
    const detail = 'include_events is not a known query parameter';
    const { api } = new StubService(({ route }) =>
      route === 'GET /runs/r' ? Response.json(SHOWN_RUN) : Response.json({ detail }, { status: 400 }),
    );
    assert.equal((await api.getRun('r')).kind, 'ok');
  });

  test('gets an event again without the details that it refuses by name, under the same key', async () => {
    const { api, received } = new StubService(({ body }) => {
      const [, unknown] = Object.keys(JSON.parse(body).payload);
      return unknown === undefined ? done() : refusalOf(unknown);
    });
    const event = { type: 'COMPLETED', msg: 'm', payload: PAYLOAD };
    assert.deepEqual(await api.postEvent('r', event, REPORTER), { kind: 'ok', value: null });
    assert.deepEqual(
      received.map(({ headers, body }) => [
        headers.get('Idempotency-Key'),
        ...Object.keys(JSON.parse(body).payload),
      ]),
      [
        ['k', 'outputs', 'started_at', 'finished_at'],
        ['k', 'outputs', 'finished_at'],
        ['k', 'outputs'],
      ],
    );
  });

  test('gets no event again that it refuses for something else, or that a program has printed', async () => {
    for (const [type, name] of [
      ['COMPLETED', 'outputs'],
      ['MINE', 'started_at'],
    ] as const) {
      const { api, received } = new StubService(() => refusalOf(name));
      const refused = await api.postEvent('r', { type, msg: 'm', payload: PAYLOAD }, REPORTER);
      const detail = `Request validation failed: payload.${name} is not a known field`;
      assert.deepEqual(refused, { kind: 'refused', status: 400, detail });
      assert.equal(received.length, 1);
    }
  });
});

function refusalOf(...members: readonly string[]): Response {
  const errors = members.map((name) => `payload.${name} is not a known field`);
  return Response.json({ detail: 'Request validation failed', errors }, { status: 400 });
}
