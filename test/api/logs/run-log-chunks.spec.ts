import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { putChunk, readLog, readWhole, told } from '../../support/runs/run-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const UNKNOWN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

function refused({ status }: { readonly status: number }): void {
  assert.equal(status, 409);
}

describe('PUT /runs/{id}/logs/{chunk}', () => {
  const service = useTestApp();
  const { send } = service;
  const steps = new RunSteps(send);

  test('stores consecutive chunks and returns the next expected chunk and line', async () => {
    const { id: run } = await steps.running();
    const first = await putChunk(send, { run }, 0, { firstLine: 0, texts: ['a', 'b'] });
    assert.deepEqual([first.status, first.body], [200, { next_chunk: 1, next_line: 2 }]);
    const second = await putChunk(send, { run }, 1, { firstLine: 2, texts: ['c'], isLast: true });
    assert.deepEqual([second.status, second.body], [200, { next_chunk: 2, next_line: 3 }]);
    assert.deepEqual(told((await readLog(send, run)).entries), ['a', 'b', 'c']);
  });

  test('reads times that are UNIX seconds', async () => {
    const { id } = await steps.running();
    const lines = [{ t: 1767323045.678, stream: 'stdout', text: 'a' }];
    const headers = { 'X-Worker-Id': 'w', 'X-Run-Attempt': '1' };
    const body = { first_line: 0, lines };
    assert.equal((await send('PUT', `/runs/${id}/logs/0`, { body, headers })).status, 200);
    const [line] = (await readLog(send, id)).entries;
    assert.equal(line?.t, '2026-01-02T03:04:05.678Z');
  });

  test('stores a chunk once that is sent twice, and returns the position each time', async () => {
    const { id: run } = await steps.running();
    await putChunk(send, { run }, 0, { firstLine: 0, texts: ['a'] });
    await putChunk(send, { run }, 1, { firstLine: 1, texts: ['b'], isLast: true });
    for (const chunk of [0, 1, 0]) {
      const again = await putChunk(send, { run }, chunk, {
        firstLine: chunk,
        texts: ['other'],
        isLast: true,
      });
      assert.deepEqual([again.status, again.body], [200, { next_chunk: 2, next_line: 2 }]);
    }
    assert.deepEqual(told((await readLog(send, run)).entries), ['a', 'b']);
  });

  test('refuses an unexpected chunk and names the expected one', async () => {
    const { id: run } = await steps.running();
    const early = await putChunk(send, { run }, 1, { firstLine: 0, texts: ['a'] });
    assertError(early, 409, 'Chunk 1 is not the next one; chunk 0 is expected');
    const logs = await rows(service.dataSource, 'select from run_logs where run_id = $1', [run]);
    assert.deepEqual(logs, [], 'a refused chunk began a log');
    await putChunk(send, { run }, 0, { firstLine: 0, texts: ['a', 'b'] });
    const back = await putChunk(send, { run }, 1, { firstLine: 1, texts: ['b'] });
    assertError(back, 409, 'Line 1 is there already; 2 is expected');
    await putChunk(send, { run }, 1, { firstLine: 2, texts: [], isLast: true });
    const late = await putChunk(send, { run }, 2, { firstLine: 2, texts: ['c'] });
    assertError(late, 409, 'The log is complete');
    assert.deepEqual(told((await readLog(send, run)).entries), ['a', 'b']);
  });

  test('accepts chunks of the worker that has or had the attempt, also after a failure, a cancel and the end', async () => {
    const { id: run } = await steps.running({ retry_policy: { max_attempts: 3 } }, 'mine');
    const mine = { run, worker: 'mine' };
    refused(await putChunk(send, { run, worker: 'yours' }, 0, { firstLine: 0, texts: ['x'] }));
    refused(await putChunk(send, { ...mine, attempt: 2 }, 0, { firstLine: 0, texts: ['x'] }));
    assert.equal((await putChunk(send, mine, 0, { firstLine: 0, texts: ['1a'] })).status, 200);
    await steps.event(run, 'FAILED');
    assert.equal((await putChunk(send, mine, 1, { firstLine: 1, texts: ['1b'] })).status, 200);
    // The second attempt is pending: it was in nobody's hands yet.
    refused(await putChunk(send, { ...mine, attempt: 2 }, 0, { firstLine: 0, texts: ['x'] }));
    await steps.heartbeat('yours');
    await steps.claimUntil(run, 'yours');
    const yours = { run, worker: 'yours', attempt: 2 };
    refused(await putChunk(send, { ...mine, attempt: 2 }, 0, { firstLine: 0, texts: ['x'] }));
    refused(await putChunk(send, { ...yours, attempt: 1 }, 2, { firstLine: 2, texts: ['x'] }));
    assert.equal((await putChunk(send, yours, 0, { firstLine: 0, texts: ['2a'] })).status, 200);
    await send('POST', `/runs/${run}/cancel`);
    assert.equal((await putChunk(send, yours, 1, { firstLine: 1, texts: ['2b'], isLast: true })).status, 200);
    assert.equal((await putChunk(send, mine, 2, { firstLine: 2, texts: ['1c'], isLast: true })).status, 200);
    assert.deepEqual(told(await readWhole(send, run, 'attempt=1')), ['1a', '1b', '1c']);
    assert.deepEqual(told(await readWhole(send, run)), ['2a', '2b']);
    const { id: ended } = await steps.running();
    await steps.event(ended, 'COMPLETED');
    assert.equal((await putChunk(send, { run: ended }, 0, { firstLine: 0, texts: ['late'] })).status, 200);
  });

  test('accepts chunks only of the worker that opened the log when an admin assigns the attempt to another', async () => {
    const { id: run } = await steps.running({}, 'first');
    await putChunk(send, { run, worker: 'first' }, 0, { firstLine: 0, texts: ['a'] });
    await send('PATCH', `/runs/${run}`, { body: { state: 'PENDING' } });
    await steps.heartbeat('second');
    await steps.claimUntil(run, 'second');
    const other = await putChunk(send, { run, worker: 'second' }, 0, { firstLine: 0, texts: ['b'] });
    assertError(other, 409, `Attempt 1 of run '${run}' was not assigned to this worker`);
    assert.equal(
      (await putChunk(send, { run, worker: 'first' }, 1, { firstLine: 1, texts: ['c'] })).status,
      200,
    );
  });

  test('returns 404 for an unknown run and 400 for a malformed chunk', async () => {
    for (const run of [UNKNOWN, 'nope']) {
      const answer = await putChunk(send, { run }, 0, { firstLine: 0, texts: ['a'] });
      assertError(answer, 404, `OpRun '${run}' not found`);
    }
    const { id: run } = await steps.running();
    const line = { t: '2026-01-02T03:04:05.678Z', stream: 'stdout', text: 'a' };
    const good = { first_line: 0, lines: [line], is_last: false };
    const fence = { 'X-Worker-Id': 'w', 'X-Run-Attempt': '1' };
    const cases: [body: unknown, headers: Record<string, string>, chunk: string, error: RegExp][] = [
      [good, {}, '0', /X-Worker-Id is required/],
      [good, { 'X-Worker-Id': 'w' }, '0', /X-Run-Attempt is required/],
      [good, { 'X-Run-Attempt': '1' }, '0', /X-Worker-Id is required/],
      [good, fence, '-1', /chunk must be/],
      [good, fence, '01', /chunk must be/],
      [good, fence, '4294967296', /chunk must be/],
      [{ ...good, lines: [] }, fence, '0', /lines must not be empty/],
      [
        { ...good, lines: Array.from({ length: 5001 }, () => line) },
        fence,
        '0',
        /lines must be a list of at most 5000/,
      ],
      [{ ...good, lines: [{ ...line, text: 'x'.repeat(16_385) }] }, fence, '0', /lines\[0\]\.text must be/],
      [{ ...good, lines: [{ ...line, stream: 'stdin' }] }, fence, '0', /lines\[0\]\.stream/],
      [{ ...good, lines: [{ ...line, t: '2026-02-30T00:00:00Z' }] }, fence, '0', /lines\[0\]\.t must be/],
      [{ ...good, lines: [{ ...line, more: 1 }] }, fence, '0', /lines\[0\]\.more is not a known field/],
      [{ ...good, first_line: -1 }, fence, '0', /first_line must be/],
      [{ ...good, skipped_bytes: 1.5 }, fence, '0', /skipped_bytes must be/],
    ];
    for (const [body, headers, chunk, error] of cases) {
      const answer = await send('PUT', `/runs/${run}/logs/${chunk}`, { body, headers });
      assert.equal(answer.status, 400, answer.text);
      assert.match(String(answer.body.errors), error);
    }
    for (const spoiled of ['"\\u0000"', '"\\ud800"']) {
      const body = JSON.stringify(good).replace('"a"', spoiled);
      assert.equal((await send('PUT', `/runs/${run}/logs/0`, { body, headers: fence })).status, 400);
    }
    assert.deepEqual((await readLog(send, run)).entries, []);
  });

  test('accepts the largest chunk: 5,000 lines, and lines of 16,384 characters', async () => {
    const { id: run } = await steps.running();
    const texts = Array.from({ length: 5000 }, (_, n) => `line ${n}`);
    assert.equal((await putChunk(send, { run }, 0, { firstLine: 0, texts })).status, 200);
    const long = '😀'.repeat(16_384);
    assert.equal((await putChunk(send, { run }, 1, { firstLine: 5000, texts: [long, long] })).status, 200);
    assert.deepEqual(told(await readWhole(send, run)), [...texts, long, long]);
  });
});
