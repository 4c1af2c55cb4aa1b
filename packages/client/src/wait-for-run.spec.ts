import assert from 'node:assert/strict';
import { beforeEach, describe, test, vi } from 'vitest';
import { createLongshoreClient } from './client.js';
import { RunWaitRefused, waitForRun, type RunWaitOptions } from './wait-for-run.js';

const ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

/** Waits with a service that answers these in turn; an Error is a lost answer. */
function wait(answers: readonly (Response | Error)[], options?: RunWaitOptions) {
  const urls: string[] = [];
  const fetch = async (request: Request): Promise<Response> => {
    const answer = answers[urls.length] ?? assert.fail('too many requests');
    urls.push(request.url);
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const client = createLongshoreClient({ baseUrl: 'http://service', apiKey: 'key', fetch });
  return { urls, run: waitForRun(client, ID, options) };
}

function inState(state: string): Response {
  return Response.json({ id: ID, state });
}

describe('waitForRun', () => {
  beforeEach(() => void vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 20 }));

  test('asks the service to hold the answer, and asks again until the run has ended', async () => {
    const { urls, run } = wait(['PENDING', 'RUNNING', 'FAILED'].map(inState));
    assert.equal((await run).state, 'FAILED');
    assert.equal(urls.length, 3);
    assert.equal(urls[0], `http://service/runs/${ID}?include_events=false&wait=25&until=ended`);
  });

  test('until started ends with a run that runs or has ended', async () => {
    for (const state of ['RUNNING', 'CANCELLED']) {
      const { run } = wait([inState('ASSIGNED'), inState(state)], { until: 'started' });
      assert.equal((await run).state, state);
    }
  });

  test('goes on after lost answers, errors of the service and of gateways, and 429', async () => {
    const { run } = wait([
      new TypeError('fetch failed'),
      new Response('<html>', { status: 502 }),
      Response.json({ detail: 'stopping' }, { status: 503 }),
      Response.json({ detail: 'too many' }, { status: 429 }),
      inState('COMPLETED'),
    ]);
    assert.equal((await run).state, 'COMPLETED');
  });

  test('fails at once when the service refuses the request', async () => {
    for (const status of [401, 403, 404]) {
      const { run } = wait([Response.json({ detail: 'no' }, { status })]);
      await assert.rejects(run, (error) => error instanceof RunWaitRefused && error.status === status);
    }
  });

  test('fails with the last reason when nothing answers for too long', async () => {
    const { run } = wait(
      Array.from({ length: 9 }, () => new TypeError('connection refused')),
      { patienceMs: 900 },
    );
    await assert.rejects(run, /connection refused/);
  });

  test('ends with the reason of its signal', async () => {
    const controller = new AbortController();
    const { run } = wait([new TypeError('lost'), inState('PENDING')], { signal: controller.signal });
    controller.abort(new Error('enough'));
    await assert.rejects(run, /enough/);
  });
});
