import assert from 'node:assert/strict';
import { test } from 'vitest';
import { HttpServiceApi } from './http-service-api.js';
import { IDLE_REPORT } from '../testing/idle-report.js';

interface Asked {
  readonly path: string;
  readonly key: string | null;
  /** Members of the payload. */
  readonly members: readonly string[];
}

const RUN = {
  id: 'r',
  state: 'RUNNING',
  current_attempt: 1,
  image: 'i',
  inputs: {},
  outputs: {},
  execution_summary: {},
};
const CALL = {
  waitSeconds: 0,
  timeoutMs: 10_000,
  signal: new AbortController().signal,
  onAssigned: () => undefined,
};
const REPORTER = { workerId: 'w', attempt: 1, idempotencyKey: 'k', trace: null };
const PAYLOAD = { outputs: { started_at: 1 }, started_at: 'a', finished_at: 'b' };

function serve(answer: (asked: Asked) => Response): {
  readonly api: HttpServiceApi;
  readonly asked: Asked[];
} {
  const asked: Asked[] = [];
  const fetch = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const text = await request.text();
    const members = Object.keys(text === '' ? {} : (JSON.parse(text).payload ?? {}));
    const one = { path: `${pathname}${search}`, key: request.headers.get('Idempotency-Key'), members };
    asked.push(one);
    return answer(one);
  };
  return { api: new HttpServiceApi({ baseUrl: 'http://service', apiKey: 'secret', fetch }), asked };
}

function refusalOf(...members: readonly string[]): Response {
  const errors = members.map((name) => `payload.${name} is not a known field`);
  return Response.json({ detail: 'Request validation failed', errors }, { status: 400 });
}

test('an older service gets no query that it would refuse, and a newer one all again', async () => {
  let lost: object = {};
  const { api, asked } = serve(({ path }) =>
    Response.json(path === '/workers/heartbeat' ? { id: 'w', ...lost } : { ...RUN, ops: [] }),
  );
  const paths = async (): Promise<readonly string[]> => {
    await api.heartbeat(IDLE_REPORT, CALL);
    asked.length = 0;
    await api.claim('w', 'k', { ...CALL, max: 3 });
    await api.getRun('r');
    return asked.map(({ path }) => path);
  };
  assert.deepEqual(await paths(), ['/workers/w/claim', '/runs/r']);
  lost = { lost_ops: [] };
  assert.deepEqual(await paths(), ['/workers/w/claim?max=3', '/runs/r?include_events=false']);
});

test('a run is read with its events when the service does not know the query', async () => {
  const detail = 'include_events is not a known query parameter';
  const { api } = serve(({ path }) =>
    path === '/runs/r' ? Response.json(RUN) : Response.json({ detail }, { status: 400 }),
  );
  assert.equal((await api.getRun('r')).kind, 'ok');
});

test('an event is sent again without the details that the service refuses by name, under the same key', async () => {
  const { api, asked } = serve(({ members: [, unknown] }) =>
    unknown === undefined ? new Response(null, { status: 204 }) : refusalOf(unknown),
  );
  const event = { type: 'COMPLETED', msg: 'm', payload: PAYLOAD };
  assert.deepEqual(await api.postEvent('r', event, REPORTER), { kind: 'ok', value: null });
  assert.deepEqual(
    asked.map(({ key, members }) => [key, ...members]),
    [
      ['k', 'outputs', 'started_at', 'finished_at'],
      ['k', 'outputs', 'finished_at'],
      ['k', 'outputs'],
    ],
  );
});

test('an event that is refused for something else, or that a program has printed, is not sent again', async () => {
  for (const [type, name] of [
    ['COMPLETED', 'outputs'],
    ['MINE', 'started_at'],
  ] as const) {
    const { api, asked } = serve(() => refusalOf(name));
    const refused = await api.postEvent('r', { type, msg: 'm', payload: PAYLOAD }, REPORTER);
    const detail = `Request validation failed: payload.${name} is not a known field`;
    assert.deepEqual(refused, { kind: 'refused', status: 400, detail });
    assert.equal(asked.length, 1);
  }
});
