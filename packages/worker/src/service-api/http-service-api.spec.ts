import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { PLAIN } from '../testing/fake-service.js';
import { HttpServiceApi } from './http-service-api.js';
import { readRun } from './read-answers.js';
import { NO_CONSTRAINTS } from './constraints.js';
import type { Answer } from './service-api.js';

interface Received {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

const received: Received[] = [];
let answer: (response: ServerResponse) => void = () => undefined;
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const { method, url, headers } = request;
    received.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
    answer(response);
  });
});
let baseUrl = '';

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  baseUrl = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  received.length = 0;
});

const api = (): HttpServiceApi => new HttpServiceApi({ baseUrl, apiKey: 'secret' });
const json =
  (status: number, body: unknown, headers: Record<string, string> = {}) =>
  (response: ServerResponse): void => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };

const ASKED = { ...NO_CONSTRAINTS, ramMb: 1, vramMb: 2, cpuMillis: 3000, cpuLimitMillis: 3000 };
const REPORT = {
  workerId: 'rack/7:a',
  resources: { cpuCores: 2, ramMb: 100, gpus: [{ id: 0, vramMb: 5, tags: ['a100'] }] },
  load: { name: 'slurm', pending: 1, running: 2 },
  tags: ['fast'],
  capabilities: ['env', 'registry'] as const,
  notClaiming: [{ reason: 'draining', message: 'm' }] as const,
  runningOps: [
    {
      id: 'r',
      image: 'i',
      inputs: { a: 1 },
      constraints: ASKED,
      attempt: 2,
    },
  ],
};
const RUN = {
  id: 'r',
  state: 'RUNNING',
  current_attempt: 2,
  image: 'i',
  inputs: {},
  outputs: { u: 'x' },
  execution_summary: { worker_id: 'rack/7:a' },
};
const CALL = {
  waitSeconds: 0,
  timeoutMs: 15_000,
  signal: new AbortController().signal,
  onAssigned: () => undefined,
};
const beat = (timeoutMs = 20_000): ReturnType<HttpServiceApi['heartbeat']> =>
  api().heartbeat(REPORT, { ...CALL, timeoutMs });

test('sends a heartbeat and reads the worker timeout and the limit of bodies', async () => {
  answer = json(200, { id: 'rack/7:a' }, { 'X-Worker-Timeout': '7.5', 'X-Max-Body-Bytes': '1048576' });
  const value = { workerTimeoutSeconds: 7.5, maxBodyBytes: 1_048_576, lostRuns: null };
  assert.deepEqual(await beat(), { kind: 'ok', value });
  const [request] = received;
  assert.equal(`${request?.method} ${request?.url}`, 'POST /workers/heartbeat');
  assert.equal(request?.headers['x-api-key'], 'secret');
  assert.deepEqual(JSON.parse(request?.body ?? ''), {
    worker_id: 'rack/7:a',
    resources: { cpu_cores: 2, ram_mb: 100, gpus: [{ id: 0, vram_mb: 5, tags: ['a100'] }] },
    tags: ['fast'],
    capabilities: ['env', 'registry'],
    engine: { name: 'slurm', pending: 1, running: 2 },
    not_claiming: [{ reason: 'draining', message: 'm' }],
    running_ops: [
      {
        id: 'r',
        image: 'i',
        inputs: { a: 1 },
        constraints: { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: null },
        attempt: 2,
      },
    ],
  });
  for (const header of ['soon', '0', '-1', 'Infinity', '']) {
    answer = json(200, { id: 'rack/7:a' }, { 'X-Worker-Timeout': header, 'X-Max-Body-Bytes': header });
    const unknown = { workerTimeoutSeconds: null, maxBodyBytes: null, lostRuns: null };
    assert.deepEqual(await beat(), { kind: 'ok', value: unknown });
  }
});

const TRACE = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'vendor=1',
};

test('claims for a worker id with slashes and colons, with an idempotency key', async () => {
  const constraints = { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: 0 };
  const op = { id: 'r', image: 'i', inputs: {}, constraints, attempt: 4 };
  const traced = { ...op, ...TRACE };
  const mistraced = { ...op, traceparent: 'rubbish' };
  answer = json(200, { ops: [op, traced, mistraced] });
  assert.deepEqual(await api().claim('rack/7:a', 'key-1', CALL), {
    kind: 'ok',
    value: [null, TRACE, null].map((trace) => ({
      id: 'r',
      image: 'i',
      inputs: {},
      constraints: { ...ASKED, gpuIds: [0] },
      attempt: 4,
      container: PLAIN,
      trace,
    })),
  });
  assert.equal(received[0]?.url, '/workers/rack%2F7%3Aa/claim');
  assert.equal(received[0]?.headers['idempotency-key'], 'key-1');
});

test('sends the wait in the query, and no query without one', async () => {
  answer = json(200, { ops: [] });
  await api().claim('w', 'k', { ...CALL, waitSeconds: 20 });
  await api().claim('w', 'k', CALL);
  assert.deepEqual(
    received.map(({ url }) => url),
    ['/workers/w/claim?wait=20', '/workers/w/claim'],
  );
});

test('aborts a waiting claim: the service sees the connection close at once', async () => {
  const closed = new Promise<void>((resolve) => {
    answer = (response) => void response.once('close', resolve);
  });
  const breakOff = new AbortController();
  const asked = api().claim('w', 'k', { ...CALL, waitSeconds: 20, signal: breakOff.signal });
  while (received.length === 0) await sleep(5);
  breakOff.abort();
  assert.deepEqual(await asked, { kind: 'unreachable', reason: 'aborted' });
  await closed;
});

test('reads a run without its events', async () => {
  answer = json(200, RUN);
  assert.deepEqual(await api().getRun('r'), { kind: 'ok', value: readRun(RUN, 'r') });
  assert.equal(received[0]?.url, '/runs/r?include_events=false');
  answer = json(200, { ...RUN, execution_summary: {} });
  const free = await api().getRun('r');
  assert.equal(free.kind === 'ok' && free.value.workerId, null);
});

test('sends an event with worker, attempt and idempotency key', async () => {
  answer = (response) => response.writeHead(204).end();
  const reporter = { workerId: 'rack/7:a', attempt: 2, idempotencyKey: 'key-2', trace: TRACE };
  assert.deepEqual(await api().postEvent('r', { type: 'PROGRESS', msg: 5 }, reporter), {
    kind: 'ok',
    value: null,
  });
  const [request] = received;
  assert.equal(`${request?.method} ${request?.url}`, 'POST /runs/r/events');
  assert.equal(request?.headers['x-worker-id'], 'rack/7:a');
  assert.equal(request?.headers['x-run-attempt'], '2');
  assert.equal(request?.headers['prefer'], 'return=minimal');
  assert.equal(request?.headers['idempotency-key'], 'key-2');
  assert.equal(request?.headers['traceparent'], TRACE.traceparent);
  assert.equal(request?.headers['tracestate'], TRACE.tracestate);
  assert.deepEqual(JSON.parse(request?.body ?? ''), { type: 'PROGRESS', msg: 5 });

  answer = json(200, RUN);
  const unknown = { ...reporter, attempt: null, trace: null };
  assert.equal((await api().postEvent('r', { type: 'A', msg: '', payload: { x: 1 } }, unknown)).kind, 'ok');
  assert.equal(received[1]?.headers['x-run-attempt'], undefined);
  assert.equal(received[1]?.headers['traceparent'], undefined);
  assert.deepEqual(JSON.parse(received[1]?.body ?? ''), { type: 'A', msg: '', payload: { x: 1 } });
});

test('sends a log chunk under its number, with its worker', async () => {
  answer = json(200, { next_chunk: 4, next_line: 12 });
  const address = { runId: 'r', attempt: 2, workerId: 'rack/7:a', number: 3 };
  const atMs = Date.parse('2026-01-02T03:04:05.678Z');
  const lines = [
    { atMs, stream: 'stdout', text: 'a', isContinued: false },
    { atMs, stream: 'stderr', text: '', isContinued: true },
  ] as const;
  const open = new AbortController().signal;
  const chunk = { firstLine: 10, lines, skippedBytes: 7, isLast: false };
  assert.deepEqual(await api().putLogChunk(address, chunk, open), {
    kind: 'ok',
    value: { nextChunk: 4, nextLine: 12 },
  });
  const [request] = received;
  assert.equal(`${request?.method} ${request?.url}`, 'PUT /runs/r/logs/3');
  assert.equal(request?.headers['x-worker-id'], 'rack/7:a');
  assert.equal(request?.headers['x-run-attempt'], '2');
  const t = '2026-01-02T03:04:05.678Z';
  assert.deepEqual(JSON.parse(request?.body ?? ''), {
    first_line: 10,
    lines: [
      { t, stream: 'stdout', text: 'a', continued: false },
      { t, stream: 'stderr', text: '', continued: true },
    ],
    skipped_bytes: 7,
    is_last: false,
  });
  const last = { firstLine: 12, lines: [], skippedBytes: 0, isLast: true };
  await api().putLogChunk(address, last, open);
  assert.deepEqual(JSON.parse(received[1]?.body ?? ''), { first_line: 12, lines: [], is_last: true });
  answer = json(200, { something: 'else' });
  assert.equal((await api().putLogChunk(address, last, open)).kind, 'unreachable');
});

test('distinguishes refusals from failures by the status', async () => {
  for (const status of [400, 401, 403, 404, 409, 410, 413, 415, 422]) {
    answer = json(status, { detail: 'No.' });
    assert.deepEqual(await beat(), { kind: 'refused', status, detail: 'No.' });
  }
  for (const status of [301, 302, 307, 408, 425, 429, 500, 502, 503, 504]) {
    answer = json(status, { detail: 'Later.' }, { Location: '/elsewhere' });
    assert.deepEqual(await beat(), { kind: 'unreachable', reason: `HTTP ${status}: Later.`, status });
  }
  assert.ok(
    received.every(({ url }) => url !== '/elsewhere'),
    'no redirect was followed',
  );
});

test('reads Retry-After', async () => {
  answer = json(503, { detail: 'Later.' }, { 'Retry-After': '7' });
  const now = await beat();
  assert.equal(now.kind === 'unreachable' && now.retryAfterSeconds, 7);
  answer = json(503, { detail: 'Later.' }, { 'Retry-After': 'Wed, 21 Oct 2015 07:28:00 GMT' });
  assert.deepEqual(await beat(), { kind: 'unreachable', reason: 'HTTP 503: Later.', status: 503 });
});

const html = (status: number) => (response: ServerResponse) =>
  response.writeHead(status, { 'Content-Type': 'text/html' }).end('<html>hello</html>');

test("rejects bodies that are not the service's", async () => {
  const asks: (() => Promise<Answer<unknown>>)[] = [
    () => beat(),
    () => api().claim('w', 'k', CALL),
    () => api().getRun('r'),
    () =>
      api().postEvent(
        'r',
        { type: 'A', msg: 1 },
        { workerId: 'w', attempt: 1, idempotencyKey: 'k', trace: null },
      ),
  ];
  for (const strange of [
    html(200),
    json(200, []),
    json(200, null),
    (response: ServerResponse) => response.end(),
  ]) {
    answer = strange;
    for (const one of asks) assert.equal((await one()).kind, 'unreachable');
  }
  for (const other of [
    { ...RUN, id: 'other' },
    { ...RUN, execution_summary: undefined },
    { ...RUN, state: 1 },
  ]) {
    answer = json(200, other);
    assert.equal((await api().getRun('r')).kind, 'unreachable');
  }
});

test('treats a silent, incomplete or closed answer as unreachable', async () => {
  answer = () => undefined;
  assert.deepEqual(await beat(100), { kind: 'unreachable', reason: 'no answer within 100 ms' });
  answer = (response) => void response.writeHead(200, { 'Content-Type': 'application/json' }).write('{"id":');
  assert.equal((await beat(100)).kind, 'unreachable');
  answer = (response) => void response.destroy();
  assert.equal((await beat()).kind, 'unreachable');
});

test('reports a refused connection', async () => {
  const absent = new HttpServiceApi({ baseUrl: 'http://127.0.0.1:1', apiKey: 'secret' });
  const nobody = await absent.claim('w', 'k', CALL);
  assert.match(nobody.kind === 'unreachable' ? nobody.reason : '', /ECONNREFUSED|bad port/);
});

test('reads no more of an answer than the limit, plain or compressed', async () => {
  const limited = new HttpServiceApi({ baseUrl, apiKey: 'secret', maxBytes: 100_000 });
  const tooLarge = /larger than SERVICE_WORKER_MAX_ANSWER_BYTES \(100000\)/;
  for (const status of [200, 404]) {
    answer = (response) => {
      response.writeHead(status, { 'Content-Type': 'application/json' });
      const flood = (): void => {
        if (!response.destroyed) response.write('[0],'.repeat(10_000), () => setImmediate(flood));
      };
      flood();
    };
    const got = await limited.getRun('r');
    assert.ok(got.kind === 'unreachable');
    assert.match(got.reason, tooLarge);
  }
  answer = (response) => {
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' });
    response.end(gzipSync(JSON.stringify({ ...RUN, inputs: { a: 'x'.repeat(1_000_000) } })));
  };
  const bomb = await limited.getRun('r');
  assert.ok(bomb.kind === 'unreachable');
  assert.match(bomb.reason, tooLarge);
  answer = json(200, RUN);
  assert.equal((await limited.getRun('r')).kind, 'ok');
});

test('removes the worker by its encoded id, and passes on a refusal', async () => {
  answer = (response) => response.writeHead(204).end();
  assert.deepEqual(await api().removeWorker('rack/7:a'), { kind: 'ok', value: null });
  assert.deepEqual([received[0]?.method, received[0]?.url], ['DELETE', '/workers/rack%2F7%3Aa']);
  answer = json(409, { detail: 'it has runs' });
  assert.deepEqual(await api().removeWorker('a'), { kind: 'refused', status: 409, detail: 'it has runs' });
});
