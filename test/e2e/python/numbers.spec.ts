import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describe, onTestFinished, test } from 'vitest';
import { withClient } from '../../support/programs/python.js';
import { launch, makeDataDir } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { EXAMPLE_WORKER, whyNoPython } from '../../support/workers/example-worker.js';

const DIGITS = '7'.repeat(5001);

/** Answers a request by JSON text; undefined: 404. */
type Answers = (method: string, url: URL, body: string) => string | undefined;

/** A service with numbers that the real one refuses today, and may have stored before. */
async function serve(answers: Answers): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      const answer = answers(request.method ?? '', new URL(request.url ?? '', 'http://host'), body);
      response.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
      response.end(answer ?? '{"detail": "not found"}');
    });
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return `http://127.0.0.1:${address.port}`;
}

const runWith = (inputs: string): string =>
  `{"id": "r-1", "state": "COMPLETED", "inputs": ${inputs}, "outputs": {"n": -${DIGITS}}, "current_attempt": 1,
    "progress": 100, "execution_summary": {}, "image": "i"}`;

/** Fields of a run that the worker `w-1` holds. */
const heldRun = (id: string): string =>
  `"id": "${id}", "state": "ASSIGNED", "image": "i", "inputs": ${id === 'huge' ? `{"n": ${DIGITS}}` : '{}'},
   "outputs": {}, "constraints": {}, "execution_summary": {"worker_id": "w-1"}`;

describe('numbers of more digits than Python reads', skipFor(whyNoPython()), () => {
  test('are read by every call of the client, and limit no other code of the process', async () => {
    const run = runWith(`{"n": ${DIGITS}}`);
    const event = `{"run_id": "r-1", "cursor": "c", "id": 0, "payload": {"n": ${DIGITS}}}`;
    const url = await serve((method, { pathname }) => {
      if (pathname === '/runs' && method === 'GET') return `{"data": [${run}], "has_more": false}`;
      if (pathname === '/feed') return `{"events": [${event}], "has_more": false}`;
      if (pathname.endsWith('/events')) return `{"events": [${event}]}`;
      return run;
    });
    const program = `
import sys
limit = getattr(sys, "get_int_max_str_digits", int)()
n = 7 * (10**5001 - 1) // 9
for run in (api.get("r-1"), api.wait("r-1"), next(api.list()), *api.map_image("i", [{}, {}]), api.submit("d").result()):
    assert run.inputs == {"n": n} and run.outputs == {"n": -n}
    assert len(repr(run)) < 100 and "777" in run._repr_html_()
for event in (*api.feed("t", follow=False), *api.events("r-1")):
    assert event["payload"] == {"n": n}
assert Longshore(decimals=True).get("r-1").inputs == {"n": n}
assert getattr(sys, "get_int_max_str_digits", int)() == limit
print("read")`;
    assert.equal(await withClient(url, program), 'read\n');
  });

  test('are sent whole, and refused by the service alone', async () => {
    const bodies: string[] = [];
    const url = await serve((_, __, body) => {
      bodies.push(body);
      return runWith('{}');
    });
    await withClient(url, 'api.run_image("i", {"n": 7 * (10**5001 - 1) // 9, "m": -(10**5000)})');
    assert.equal(bodies[0], `{"image":"i","inputs":{"n":${DIGITS},"m":-1${'0'.repeat(5000)}}}`);
  });

  test('make a run FAILED at the example worker, which goes on with the next', async () => {
    const folder = await makeDataDir();
    const ids = ['huge', 'usual'];
    const told: string[] = [];
    const usual = new EventEmitter();
    const hasEnded = once(usual, 'end');
    const url = await serve((method, { pathname }, body) => {
      if (pathname === '/workers/heartbeat') return '{"lost_ops": []}';
      if (pathname.endsWith('/claim')) {
        const id = ids.shift();
        return `{"ops": [${id === undefined ? '' : `{${heldRun(id)}, "attempt": 1}`}]}`;
      }
      const [, id = ''] = /^\/runs\/(\w+)/.exec(pathname) ?? [];
      if (method === 'GET') return `{${heldRun(id)}, "current_attempt": 1}`;
      const { type, payload } = JSON.parse(body);
      told.push(`${id} ${type} ${payload.error_message ?? ''}`.trim());
      if (id === 'usual' && type === 'COMPLETED') usual.emit('end');
      return '{}';
    });
    const worker = await launch(['python3', EXAMPLE_WORKER], {
      env: {
        SERVICE_URL: url,
        SERVICE_API_KEY: 'k',
        SERVICE_WORKER_ID: 'w-1',
        SERVICE_WORKER_COMMAND: 'true',
        TMPDIR: join(folder),
      },
    });
    await Promise.race([hasEnded, worker.exited]);
    worker.signal('SIGKILL', 'group');
    assert.deepEqual(
      told,
      [
        'huge FAILED TypeError: Object of type TooManyDigits is not JSON serializable',
        'usual STARTED',
        'usual COMPLETED',
      ],
      worker.output,
    );
  });
});
