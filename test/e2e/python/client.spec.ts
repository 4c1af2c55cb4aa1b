import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, test } from 'vitest';
import { withClient } from '../../support/programs/python.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Answers the nth request, from 0. */
type Handler = (request: Received, response: ServerResponse, nth: number) => unknown;

const RUN = {
  id: 'r-1',
  state: 'COMPLETED',
  inputs: {},
  outputs: {},
  current_attempt: 1,
  progress: 100,
  execution_summary: {},
};

function json(response: ServerResponse, status: number, body: unknown, headers: object = {}): void {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

describe('the client for Python', skipFor(whyNoPython()), () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
    }
  });

  /** A service that answers as the test says, and keeps what it got. */
  async function serve(handler: Handler): Promise<{ readonly url: string; readonly received: Received[] }> {
    const received: Received[] = [];
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { method = '', url = '', headers } = request;
        const got = { method, url, headers, body: Buffer.concat(chunks).toString() };
        received.push(got);
        void handler(got, response, received.length - 1);
      });
    });
    servers.push(server);
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    return { url: `http://127.0.0.1:${address.port}`, received };
  }

  test('sends a create again after a lost answer, 429, and errors of a gateway, with the same key', async () => {
    const { url, received } = await serve((_, response, nth) => {
      if (nth === 0) response.destroy();
      else if (nth === 1) json(response, 429, { detail: 'too many' }, { 'Retry-After': '0' });
      else if (nth === 2) response.writeHead(502, { 'Content-Type': 'text/html' }).end('<html>');
      else if (nth === 3) response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>');
      else json(response, 201, RUN);
    });
    const program = `
print(api.run_image("busybox", {"a": 1}, priority=2, env=None).id)
print(api.run("de/f", version="2").id)
api.run("d", idempotency_key="mine")`;
    assert.equal(await withClient(url, program), 'r-1\nr-1\n');
    const keys = received.map(({ headers }) => headers['idempotency-key']);
    assert.deepEqual(new Set(keys.slice(0, 5)).size, 1);
    assert.notEqual(keys[4], keys[5]);
    assert.equal(keys[6], 'mine');
    assert.deepEqual(
      received.slice(3).map(({ method, url: path, body }) => [method, path, body]),
      [
        ['POST', '/runs', '{"image":"busybox","inputs":{"a":1},"priority":2}'],
        ['POST', '/runs', '{"image":"busybox","inputs":{"a":1},"priority":2}'],
        ['POST', '/definitions/de%2Ff/runs?version=2', '{}'],
        ['POST', '/definitions/d/runs', '{}'],
      ],
    );
  });

  test('raises Refused at once with what the service says', async () => {
    const { url, received } = await serve((_, response) =>
      json(response, 400, { detail: 'Request validation failed', errors: ['inputs.text is required'] }),
    );
    const program = `
try: api.run("words")
except Refused as refused: print(refused.status, refused.detail, refused.errors)`;
    assert.equal(
      await withClient(url, program),
      "400 Request validation failed ['inputs.text is required']\n",
    );
    assert.equal(received.length, 1);
  });

  test('sends the key to the host of its URL alone: no redirect is followed, no proxy is used', async () => {
    const other = await serve((_, response) => json(response, 200, RUN));
    const { url, received } = await serve((_, response) =>
      response.writeHead(307, { Location: `${other.url}/runs/r-1` }).end(),
    );
    const proxies = Object.fromEntries(
      ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY'].map((name) => [name, other.url]),
    );
    const program = `
for call in (lambda: api.get("r-1"), lambda: api.run("d"), lambda: api.wait("r-1")):
    try: call()
    except Refused as refused: print(refused)`;
    const told = '307: the answer is a redirect, which is not followed: correct the URL of the service\n';
    assert.equal(await withClient(url, program, proxies), told.repeat(3));
    assert.equal(received.length, 3);
    assert.deepEqual(
      received.map(({ headers }) => headers['x-api-key']),
      ['the-key', 'the-key', 'the-key'],
    );
    assert.deepEqual(other.received, []);
  });

  test('sends and reads integers and decimals with all their digits', async () => {
    const { url, received } = await serve((_, response) =>
      json(
        response,
        201,
        JSON.stringify(RUN).replace('"outputs":{}', '"outputs":{"n":123456789012345678901,"f":0.10}'),
      ),
    );
    const program = `
from decimal import Decimal
inputs = {"n": 2**70, "d": Decimal("0.10"), "e": Decimal("1E+30"), "f": 0.5, "t": True, "l": [None, "ä\\n"]}
print(api.run("d", inputs).outputs)
print(Longshore(decimals=True).run("d").outputs)
for wrong in ({"x": float("nan")}, {"x": {1}}, {1: 2}):
    try: api.run("d", wrong)
    except (TypeError, ValueError) as error: print(type(error).__name__)`;
    assert.equal(
      await withClient(url, program),
      "{'n': 123456789012345678901, 'f': 0.1}\n" +
        "{'n': 123456789012345678901, 'f': Decimal('0.10')}\n" +
        'ValueError\nTypeError\nTypeError\n',
    );
    assert.equal(
      received[0]?.body,
      '{"inputs":{"n":1180591620717411303424,"d":0.10,"e":1E+30,"f":0.5,"t":true,"l":[null,"\\u00e4\\n"]}}',
    );
    assert.equal(received.length, 2);
  });

  test('waits on over lost answers and errors of the service, by requests that the service holds', async () => {
    const { url, received } = await serve((_, response, nth) => {
      if (nth === 0) json(response, 200, { ...RUN, state: 'RUNNING' });
      else if (nth === 1) response.destroy();
      else if (nth === 2) json(response, 503, { detail: 'starting' }, { 'Retry-After': '0' });
      else if (nth === 3) json(response, 500, { detail: 'Internal server error' });
      else json(response, 200, RUN);
    });
    assert.equal(await withClient(url, 'print(api.wait("r-1").state)'), 'COMPLETED\n');
    assert.equal(received.length, 5);
    assert.ok(
      received.every(({ url: path }) => path === '/runs/r-1?include_events=false&wait=25&until=ended'),
    );
  });

  test('ends a wait at its timeout, and one for the start with a run that runs', async () => {
    const { url } = await serve((request, response) =>
      json(response, 200, { ...RUN, state: request.url.includes('until=started') ? 'RUNNING' : 'PENDING' }),
    );
    const program = `
print(api.wait("r-1", until="started").state)
try: api.wait("r-1", timeout=0.2)
except TimeoutError as error: print(error)`;
    assert.equal(await withClient(url, program), 'RUNNING\nrun r-1 is PENDING after 0.2 s\n');
  });

  test.each<[what: string, handler: Handler]>([
    ['never answers', () => undefined],
    ['cuts connections', (_, response) => response.destroy()],
    [
      'asks for patience',
      (_, response) => json(response, 429, { detail: 'later' }, { 'Retry-After': '999' }),
    ],
  ])('ends a wait at its timeout with a service that %s', async (_, handler) => {
    const { url } = await serve(handler);
    const program = `
for timeout in (0, 0.2):
    try: api.wait("r-1", timeout=timeout)
    except TimeoutError as error: print("timeout")`;
    assert.equal(await withClient(url, program), 'timeout\ntimeout\n');
  });

  test('raises Unreachable from a wait when its patience ends before the timeout', async () => {
    const { url } = await serve((_, response) => response.destroy());
    const program = `
try: Longshore(patience=0.5).wait("r-1", timeout=1000)
except Unreachable as error: print("unreachable")`;
    assert.equal(await withClient(url, program), 'unreachable\n');
  });

  test('tells of a run that has failed, without its log when that does not come before the timeout', async () => {
    const { url } = await serve(({ url: path }, response) => {
      if (!path.includes('/logs')) json(response, 200, { ...RUN, state: 'FAILED' });
    });
    const program = `
try: api.wait("r-1", timeout=0.2)
except RunFailed as failed: print(failed.run.id, failed.log)`;
    assert.equal(await withClient(url, program), 'r-1 []\n');
  });

  test('raises Unreachable when nothing answers for its patience', async () => {
    const { url } = await serve((_, response) => response.destroy());
    const program = `
try: Longshore(patience=1).get("r-1")
except Unreachable as error: print("unreachable")`;
    assert.equal(await withClient(url, program), 'unreachable\n');
  });

  /** A service whose runs end a moment after they were created, as their inputs say. */
  async function serveRuns() {
    const open = new Set<string>();
    const ends = new Map<string, string>();
    const figures = { most: 0, created: 0 };
    const { url } = await serve(async ({ method, url: path, body }, response) => {
      if (path.includes('/logs')) {
        response.writeHead(200, { 'Content-Type': 'application/x-ndjson', 'X-Log-Complete': 'true' });
        response.end('{"line":0,"t":"","stream":"stderr","text":"last words"}\n');
        return;
      }
      if (method === 'POST') {
        const { inputs } = JSON.parse(body);
        const id = `r-${inputs.n}`;
        figures.created += 1;
        open.add(id);
        ends.set(id, inputs.fails === true ? 'FAILED' : 'COMPLETED');
        figures.most = Math.max(figures.most, open.size);
        json(response, 201, { ...RUN, id, state: 'PENDING' });
        return;
      }
      const [, id = ''] = /runs\/([^?]+)/.exec(path) ?? [];
      await sleep(20 + (Number(id.slice(2)) % 3) * 20);
      open.delete(id);
      const summary = { worker_id: 'w', cause: 'exit', exit_code: 4, error_message: 'broke' };
      json(response, 200, { ...RUN, id, state: ends.get(id), execution_summary: summary });
    });
    return { url, figures };
  }

  test('maps many inputs, so many at a time, in their order, read as they are needed', async () => {
    const { url, figures } = await serveRuns();
    const program = `
read = 0
def inputs():
    global read
    for n in range(20):
        read += 1
        yield {"n": n}
runs = api.map("d", inputs(), at_most=3)
first = next(runs)
assert read <= 12, read
print(first.id, *(run.id for run in runs))
print(list(api.map_image("i", [])))`;
    const ids = Array.from({ length: 20 }, (_, n) => `r-${n}`).join(' ');
    assert.equal(await withClient(url, program), `${ids}\n[]\n`);
    assert.equal(figures.most, 3);
  });

  test('stops mapping at a run that fails, whose exception has cause, exit code and log; unless it is not to check', async () => {
    const { url, figures } = await serveRuns();
    const program = `
inputs = [{"n": n, "fails": n == 1} for n in range(1000)]
try: list(api.map("d", inputs, at_most=2))
except RunFailed as failed:
    print(failed.run.id, failed.cause, failed.exit_code, failed.log)
    print(failed)
print([run.state for run in api.map("d", inputs[:3], check=False)])`;
    assert.equal(
      await withClient(url, program),
      "r-1 exit 4 ['last words']\n" +
        'run r-1 failed (exit, exit code 4): broke\n  | last words\n' +
        "['COMPLETED', 'FAILED', 'COMPLETED']\n",
    );
    assert.ok(figures.created < 500, `${figures.created} runs`);
  });

  test('maps inputs that wait for earlier results', async () => {
    const { url } = await serveRuns();
    const program = `
import threading
def inputs(got):
    for n in range(3):
        yield {"n": n}
        if not got[n].wait(20): raise RuntimeError(f"result {n} does not come")
for at_most in (1, 3):
    got = [threading.Event() for _ in range(3)]
    for n, run in enumerate(api.map("d", inputs(got), at_most=at_most)):
        print(run.id)
        got[n].set()`;
    assert.equal(await withClient(url, program), 'r-0\nr-1\nr-2\n'.repeat(2));
  });

  test('creates no run of an input that comes after a run has failed', async () => {
    const { url, figures } = await serveRuns();
    const program = `
import threading
failed = threading.Event()
def inputs():
    yield {"n": 1, "fails": True}
    if failed.wait(20): yield {"n": 2}
try: list(api.map("d", inputs(), at_most=2))
except RunFailed as error: print(error.run.id)
failed.set()
for thread in threading.enumerate():
    if thread is not threading.current_thread(): thread.join()`;
    assert.equal(await withClient(url, program), 'r-1\n');
    assert.equal(figures.created, 1);
  });

  test('raises in the place of the results what reading the inputs raises', async () => {
    const { url } = await serveRuns();
    const program = `
def inputs():
    yield {"n": 1}
    raise KeyError("broken")
try: list(api.map("d", inputs()))
except KeyError as error: print(error)`;
    assert.equal(await withClient(url, program), "'broken'\n");
  });
});
