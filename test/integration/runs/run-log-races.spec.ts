import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { changeOn } from '../../support/runs/journal.js';
import {
  assertDense,
  putChunk,
  readLog,
  readWhole,
  told,
  type ReadEntry,
} from '../../support/runs/run-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const LIMIT = 262_144;

function textOf(line: number): string {
  return `${line} `.padEnd(199, 'x');
}

describe('logs that several processes write and read at once', () => {
  const one = useTestApp({ env: { SERVICE_LOG_LIMIT_BYTES: String(LIMIT) } });
  const two = useTestApp(() => ({ env: { SERVICE_LOG_LIMIT_BYTES: String(LIMIT) }, database: one.database }));
  const steps = new RunSteps(one.send);

  test('stores a chunk once that is sent many times concurrently', async () => {
    const { id: run } = await steps.running();
    for (let chunk = 0; chunk < 8; chunk += 1) {
      const texts = Array.from({ length: 20 }, (_, n) => `${chunk} ${n}`);
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          putChunk((n % 2 === 0 ? one : two).send, { run }, chunk, { firstLine: chunk * 20, texts }),
        ),
      );
      for (const { status, body } of answers) {
        assert.deepEqual([status, body], [200, { next_chunk: chunk + 1, next_line: chunk * 20 + 20 }]);
      }
    }
    const entries = await readWhole(two.send, run);
    assert.equal(assertDense(entries), 160);
    assert.deepEqual(
      told(entries),
      Array.from({ length: 160 }, (_, n) => `${Math.floor(n / 20)} ${n % 20}`),
    );
  });

  test('keeps acknowledged chunks while the run is cancelled, ends or is reclaimed', async () => {
    const ends: ((run: string) => Promise<unknown>)[] = [
      (run) => two.send('POST', `/runs/${run}/cancel`),
      (run) => two.send('POST', `/runs/${run}/events`, { body: { type: 'COMPLETED', msg: '' } }),
      (run) => two.send('POST', `/runs/${run}/retry`),
      (run) =>
        changeOn(two.app.get(RunJournal), run, {
          type: 'reclaim',
          workerId: 'w',
          attempt: 1,
          lastHeartbeatAt: null,
        }),
    ];
    for (const [n, end] of ends.entries()) {
      const { id: run } = await steps.running();
      const ending = end(run);
      for (let chunk = 0; chunk < 10; chunk += 1) {
        const answer = await putChunk(one.send, { run }, chunk, {
          firstLine: chunk,
          texts: [`${chunk}`],
          isLast: chunk === 9,
        });
        assert.equal(answer.status, 200, `${n}: ${answer.text}`);
      }
      await ending;
      const entries = await readWhole(two.send, run, 'attempt=1');
      assert.deepEqual(
        told(entries),
        Array.from({ length: 10 }, (_, line) => String(line)),
      );
    }
  });

  test('stores chunks while the row of the run is locked, without a change to it', async () => {
    const { id: run } = await steps.running();
    const [earlier] = await rows(one.dataSource, 'select xmin, ctid from runs where id = $1::uuid', [run]);
    await one.dataSource.transaction(async (manager) => {
      await execute(manager, 'select 1 from runs where id = $1::uuid for update', [run]);
      for (let chunk = 0; chunk < 3; chunk += 1) {
        const answer = await putChunk(two.send, { run }, chunk, { firstLine: chunk, texts: ['x'] });
        assert.equal(answer.status, 200, answer.text);
      }
      await execute(manager, 'select 1');
    });
    const [later] = await rows(one.dataSource, 'select xmin, ctid from runs where id = $1::uuid', [run]);
    assert.deepEqual(later, earlier);
  });

  test('readers of a log above its limit see each line once or in a gap, in order', async () => {
    const { id: run } = await steps.running();
    const chunks = 60;
    const perChunk = 100;
    let written = false;
    const follow = async (app: TestApp, limit: number): Promise<ReadEntry[]> => {
      const entries: ReadEntry[] = [];
      let { next, isComplete, ...page } = await readLog(app.send, run, `limit=${limit}`);
      for (;;) {
        entries.push(...page.entries);
        if (isComplete) return entries;
        assert.ok(!written || entries.length < 100_000);
        ({ next, isComplete, ...page } = await readLog(app.send, run, `after=${next}&limit=${limit}&wait=5`));
      }
    };
    const writing = (async () => {
      for (let chunk = 0; chunk < chunks; chunk += 1) {
        const texts = Array.from({ length: perChunk }, (_, n) => textOf(chunk * perChunk + n));
        const isLast = chunk === chunks - 1;
        const answer = await putChunk((chunk % 2 === 0 ? one : two).send, { run }, chunk, {
          firstLine: chunk * perChunk,
          texts,
          isLast,
        });
        assert.equal(answer.status, 200, answer.text);
      }
      written = true;
    })();
    const readers = await Promise.all([follow(one, 5000), follow(two, 150), follow(two, 40), writing]);
    let gaps = 0;
    for (const entries of readers.slice(0, 3)) {
      assert.ok(entries !== undefined);
      assert.equal(assertDense(entries), chunks * perChunk);
      for (const { line, text: read, gap } of entries) {
        if (gap === undefined) assert.equal(read, textOf(line));
        else {
          gaps += 1;
          assert.equal(gap.bytes, gap.lines * 199);
        }
      }
    }
    assert.ok(gaps > 0, 'a reader was overtaken');
    const [stored] = await rows<{ bytes: string }>(
      one.dataSource,
      'select sum(text_bytes) as bytes from run_log_rows where run_id = $1::uuid',
      [run],
    );
    assert.ok(Number(stored?.bytes) <= LIMIT);
  });
});
