import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, test, vi } from 'vitest';
import { EXIT } from '../cli-error.js';
import { followRun } from './follow-run.js';
import { Output } from '../terminal/output.js';
import { makeProgram } from '../program.js';
import { Session } from '../service/session.js';

const ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const OPTIONS = { json: false, timestamps: false, withoutLogs: true, patienceMs: 1_000 };

/** The request that waits for a change. */
const POLL = '?include_events=false&wait=20&until=changed';

/** A complete log of 10 lines, half of which are not stored. */
const LOG_LINES = ['begun', 'end']
  .map((text, n) => `${JSON.stringify({ line: n * 9, stream: 'stdout', text })}\n`)
  .join('');
const LOG_STREAM =
  LOG_LINES.replaceAll(/^.+$/gm, 'data: $&\n') + 'event: end\ndata: {"lines":10,"left_out":5}\n\n';
const LOG_HEADERS = {
  'X-Log-Next-Cursor': 'c',
  'X-Log-Complete': 'true',
  'X-Log-Lines': '10',
  'X-Log-Lines-Left-Out': '5',
};

/** A service with one run, which holds waiting polls until the test answers them. */
class FakeService {
  readonly requests: string[] = [];
  state = 'PENDING';
  private events: readonly object[] = [];
  private readonly arrivals = new EventEmitter();
  private release: (response: Response) => void = () => assert.fail('no poll waits');

  readonly fetch = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url);
    const path = pathname.replace(`/runs/${ID}`, '');
    this.requests.push(`${path}?${searchParams.toString()}`);
    this.arrivals.emit('request');
    if (path === '/logs/stream') return new Response(LOG_STREAM);
    if (path === '/logs') return new Response(LOG_LINES, { headers: LOG_HEADERS });
    if (path === '/explain') return Response.json({ state: this.state, summary: 'no worker is active' });
    if (path === '/events') return Response.json({ events: this.events });
    if (searchParams.has('wait')) {
      assert.equal(request.headers.get('If-None-Match'), '"v1"');
      return new Promise((resolve) => (this.release = resolve));
    }
    return this.run();
  };

  private run(): Response {
    const run = {
      id: ID,
      state: this.state,
      progress: 0,
      current_attempt: 1,
      retry_policy: { max_attempts: 1 },
      execution_summary: {},
    };
    return Response.json(run, { headers: { ETag: '"v1"' } });
  }

  async until(request: string): Promise<void> {
    while (!this.requests.includes(request)) await once(this.arrivals, 'request');
  }

  /** Ends the run, and answers the poll that waits. */
  complete(): void {
    this.state = 'COMPLETED';
    const event = {
      id: 0,
      type: 'COMPLETED',
      t: '2026-01-02T03:04:05.678Z',
      msg: '',
      payload: {},
      state: 'COMPLETED',
    };
    this.events = [event];
    this.release(this.run());
  }

  /** Answers the poll that waits with the run as it was, as behind a proxy that changes or removes entity tags. */
  repeat(): void {
    this.release(this.run());
  }

  /** Answers the poll that waits: the run has not changed. */
  elapse(): void {
    this.release(new Response(null, { status: 304, headers: { ETag: '"v1"' } }));
  }
}

function fakeService(): FakeService {
  const service = new FakeService();
  vi.spyOn(globalThis, 'fetch').mockImplementation((request) =>
    request instanceof Request ? service.fetch(request) : assert.fail('the client sends requests'),
  );
  return service;
}

/** Follows the run of a fake service. */
function follow(options = OPTIONS) {
  const service = fakeService();
  const err = new PassThrough();
  const out = new PassThrough();
  const output = new Output(out, err, {});
  const session = new Session({ url: 'http://fake', apiKey: 'key' }, output, new AbortController().signal);
  const ended = followRun(session, ID, options);
  return {
    service,
    ended,
    errors: (): string => String(err.read() ?? ''),
    printed: (): string => String(out.read() ?? ''),
  };
}

/** What `longshore run logs` prints of the log of a fake service, on one screen. */
async function logsOf(...flags: readonly string[]): Promise<string> {
  fakeService();
  const screen = new PassThrough();
  const program = makeProgram({
    env: { SERVICE_URL: 'http://fake', SERVICE_API_KEY: 'key' },
    stdin: process.stdin,
    output: new Output(screen, screen, {}),
    argv: [],
    stop: () => new AbortController().signal,
    end: () => undefined,
  });
  await program.parseAsync(['run', 'logs', ID, ...flags], { from: 'user' });
  return String(screen.read());
}

describe('following a run', () => {
  test('sends requests that the service holds until the run changes, and reads events only then', async () => {
    vi.spyOn(Session.prototype, 'pause').mockResolvedValue();
    const { service, ended } = follow();
    await service.until(POLL);
    service.requests.length = 0;
    service.elapse();
    await service.until(POLL);
    assert.deepEqual(service.requests, [POLL]);
    service.complete();
    assert.equal(await ended, EXIT.ok);
    assert.deepEqual(service.requests, [POLL, '/events?', '?include_events=false']);
  });

  test('asks no more often than every two seconds when it is answered at once that nothing has changed', async () => {
    const pause = vi.spyOn(Session.prototype, 'pause').mockResolvedValue();
    const { service, ended } = follow();
    for (const answer of [() => service.repeat(), () => service.elapse(), () => service.repeat()]) {
      await service.until(POLL);
      service.requests.length = 0;
      pause.mockClear();
      vi.spyOn(performance, 'now').mockReturnValue(100);
      answer();
      await service.until(POLL);
      assert.ok(pause.mock.calls.some(([ms]) => ms > 1_000));
    }
    service.complete();
    assert.equal(await ended, EXIT.ok);
  });

  test('says once, after five seconds, why a run waits', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { service, ended, errors } = follow();
    await service.until(POLL);
    vi.advanceTimersByTime(4_999);
    assert.ok(!service.requests.includes('/explain?'));
    vi.advanceTimersByTime(1);
    await service.until('/explain?');
    vi.advanceTimersByTime(60_000);
    service.complete();
    assert.equal(await ended, EXIT.ok);
    assert.equal(errors().match(/^waiting: no worker is active$/gm)?.length, 1);
    assert.equal(service.requests.filter((request) => request === '/explain?').length, 1);
  });

  test('explains nothing about a run that does not wait', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { service, ended, errors } = follow();
    await service.until(POLL);
    service.state = 'RUNNING';
    vi.advanceTimersByTime(5_000);
    await service.until('/explain?');
    service.complete();
    await ended;
    assert.doesNotMatch(errors(), /waiting/);
  });

  test('says at the end of the log how many of its lines are not stored', async () => {
    const { service, ended, errors, printed } = follow({ ...OPTIONS, withoutLogs: false });
    await service.until(POLL);
    service.complete();
    assert.equal(await ended, EXIT.ok);
    assert.equal(printed(), 'begun\nend\n');
    assert.match(errors(), /^5 of 10 lines and pieces of lines of the log are left out$/m);
  });
});

test('longshore run logs says once, at the end, how many lines are not stored, also when it follows', async () => {
  for (const flags of [[], ['--follow'], ['--tail', '2'], ['--tail', '2', '--follow']]) {
    const told = 'begun\nend\n5 of 10 lines and pieces of lines of the log are left out\n';
    assert.equal(await logsOf(...flags), told, flags.join(' '));
  }
});
