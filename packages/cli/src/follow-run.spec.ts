import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, test, vi } from 'vitest';
import { EXIT } from './cli-error.js';
import { followRun } from './follow-run.js';
import { Output } from './output.js';
import { Session } from './session.js';

const ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const OPTIONS = { json: false, timestamps: false, withoutLogs: true, patienceMs: 1_000 };

/** A service with one run, which holds waiting polls until the test answers them. */
class FakeService {
  readonly requests: string[] = [];
  state = 'PENDING';
  private readonly arrivals = new EventEmitter();
  private release: (response: Response) => void = () => assert.fail('no poll waits');

  readonly fetch = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url);
    const path = pathname.replace(`/runs/${ID}`, '');
    this.requests.push(`${path}?${searchParams.toString()}`);
    this.arrivals.emit('request');
    if (path === '/explain') return Response.json({ state: this.state, summary: 'no worker is active' });
    if (path === '/events' && searchParams.has('wait')) {
      return new Promise((resolve) => (this.release = resolve));
    }
    if (path === '/events') return Response.json({ events: [] });
    return Response.json({
      id: ID,
      state: this.state,
      progress: 0,
      current_attempt: 1,
      retry_policy: { max_attempts: 1 },
      execution_summary: {},
    });
  };

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
    this.release(Response.json({ events: [event] }));
  }
}

/** Follows the run of a fake service. */
function follow() {
  const service = new FakeService();
  vi.spyOn(globalThis, 'fetch').mockImplementation((request) =>
    request instanceof Request ? service.fetch(request) : assert.fail('the client sends requests'),
  );
  const err = new PassThrough();
  const output = new Output(new PassThrough(), err, {});
  const session = new Session({ url: 'http://fake', apiKey: 'key' }, output, new AbortController().signal);
  const ended = followRun(session, ID, OPTIONS);
  return { service, ended, errors: (): string => String(err.read() ?? '') };
}

describe('following a run', () => {
  test('sends one request that the service holds until there is an event', async () => {
    const { service, ended } = follow();
    await service.until('/events?wait=20');
    service.complete();
    assert.equal(await ended, EXIT.ok);
    const run = '?include_events=false';
    assert.deepEqual(service.requests, [run, '/events?', '/events?wait=20', run, '/events?after=0', run]);
  });

  test('says once, after five seconds, why a run waits', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { service, ended, errors } = follow();
    await service.until('/events?wait=20');
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
    await service.until('/events?wait=20');
    service.state = 'RUNNING';
    vi.advanceTimersByTime(5_000);
    await service.until('/explain?');
    service.complete();
    await ended;
    assert.doesNotMatch(errors(), /waiting/);
  });
});
