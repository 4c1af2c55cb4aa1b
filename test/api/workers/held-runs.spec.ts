import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { issueKey } from '../../support/app/api-keys.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { putChunk, readLog, told } from '../../support/runs/run-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';

describe('GET /workers/{worker_id}/runs', () => {
  const service = useTestApp();
  const { send } = service;
  const steps = new RunSteps(send);
  const held = async (worker: string, key: string = KEYS.worker): Promise<unknown> =>
    bodyOf(await send('GET', `/workers/${worker}/runs`, { key }), 'HeldRuns').runs;

  test('lists the attempts that the worker holds, assigned or running, and where their logs go on', async () => {
    const silent = await steps.assigned({}, 'w1');
    const printing = await steps.running({ retry_policy: { max_attempts: 3 } }, 'w1');
    const other = await steps.running({}, 'w2');
    const log = { run: printing.id, worker: 'w1' };
    await putChunk(send, log, 0, { firstLine: 0, texts: ['a', 'b'], cursor: '2.0' });
    const nothing = { next_chunk: 0, next_line: 0 };
    assert.deepEqual(await held('w1'), [
      { id: silent.id, attempt: 1, ...nothing },
      { id: printing.id, attempt: 1, next_chunk: 1, next_line: 2, cursor: '2.0' },
    ]);
    await steps.event(printing.id, 'FAILED');
    await steps.event(silent.id, 'COMPLETED');
    await steps.claimUntil(printing.id, 'w1');
    assert.deepEqual(await held('w1'), [{ id: printing.id, attempt: 2, ...nothing }]);
    assert.deepEqual(await held('w2'), [{ id: other.id, attempt: 1, ...nothing }]);
    assert.deepEqual(await held('unknown'), []);
  });

  test('is for keys of the worker alone', async () => {
    const { key } = await issueKey(service, ['worker'], { worker_ids: ['other-*'] });
    assertError(
      await send('GET', '/workers/mine/runs', { key }),
      403,
      "API key is not bound to worker 'mine'",
    );
    assert.deepEqual(await held('other-1', key), []);
  });
});

describe('the cursor of a chunk of a log', () => {
  const { send } = useTestApp();
  const steps = new RunSteps(send);

  test('is given back with the position, also to a repeated chunk, until a later chunk has another', async () => {
    const { id: run } = await steps.running();
    const put = async (chunk: number, cursor?: string): Promise<unknown> =>
      (
        await putChunk(send, { run }, chunk, {
          firstLine: chunk,
          texts: ['x'],
          ...(cursor !== undefined && { cursor }),
        })
      ).body;
    assert.deepEqual(await put(0, 'one'), { next_chunk: 1, next_line: 1, cursor: 'one' });
    assert.deepEqual(await put(1), { next_chunk: 2, next_line: 2, cursor: 'one' });
    assert.deepEqual(await put(2, 'two'), { next_chunk: 3, next_line: 3, cursor: 'two' });
    assert.deepEqual(await put(0, 'other'), { next_chunk: 3, next_line: 3, cursor: 'two' });
    assert.deepEqual(told((await readLog(send, run)).entries), ['x', 'x', 'x']);
  });

  test('is a text of one line of 200 characters at most', async () => {
    const { id: run } = await steps.running();
    for (const [cursor, problem] of [
      ['', 'cursor must be a string without control characters of 1 to 200 characters'],
      ['x'.repeat(201), 'cursor must be a string without control characters of 1 to 200 characters'],
      ['a\nb', 'cursor must be a string without control characters of 1 to 200 characters'],
    ] as const) {
      assertInvalid(await putChunk(send, { run }, 0, { firstLine: 0, texts: ['x'], cursor }), [problem]);
    }
  });
});
