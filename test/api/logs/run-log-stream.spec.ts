import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { Drain } from '../../../src/common/http/server/drain.js';
import { LogCompleteness } from '../../../src/run-logs/log-completeness.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { EventStreamReader, type StreamOptions } from '../../support/runs/event-stream.js';
import { assertDense, putChunk, readWhole, type ReadEntry } from '../../support/runs/run-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

function open(app: TestApp, run: string, query = '', options?: StreamOptions): Promise<EventStreamReader> {
  return EventStreamReader.open(app.url, `/runs/${run}/logs/stream${query}`, options);
}

function entriesOf(reader: EventStreamReader): ReadEntry[] {
  return reader.events.map(({ id, data }) => {
    assert.equal(id, data.cursor);
    return data;
  });
}

describe('GET /runs/{id}/logs/stream', () => {
  const service = useTestApp();
  const other = useTestApp(() => ({ database: service.database }));
  const steps = new RunSteps(service.send);

  test('sends stored and new lines of any process, then the end event, and closes', async () => {
    const { id: run } = await steps.running();
    await putChunk(service.send, { run }, 0, { firstLine: 0, texts: ['a', 'b\n\ndata: c\r\u2028'] });
    const readers = [await open(service, run), await open(other, run)];
    for (const reader of readers) await reader.count(2);
    await putChunk(other.send, { run }, 1, { firstLine: 4, texts: ['d'], skippedBytes: 9 });
    for (const reader of readers) await reader.count(4);
    await putChunk(service.send, { run }, 2, { firstLine: 5, texts: [], isLast: true });
    const whole = await readWhole(service.send, run);
    for (const reader of readers) {
      await reader.end();
      assert.deepEqual(entriesOf(reader), whole);
      assert.deepEqual([reader.named, reader.ended], [['end'], 'whole']);
    }
  });

  test('resumes behind the last id without a gap or a repeat, also after a broken connection', async () => {
    const { id: run } = await steps.running();
    const read: ReadEntry[] = [];
    let last: string | undefined;
    for (let chunk = 0; chunk < 6; chunk += 1) {
      const texts = Array.from({ length: 1500 }, (_, n) => `${chunk} ${n}`);
      const isLast = chunk === 5;
      await putChunk(service.send, { run }, chunk, { firstLine: chunk * 1500, texts, isLast });
      const headers: Record<string, string> = last === undefined ? {} : { 'Last-Event-ID': last };
      const reader = await open(chunk % 2 === 0 ? service : other, run, '', { headers });
      await reader.count(chunk === 5 ? 1500 : 700);
      if (isLast) await reader.end();
      reader.close();
      await reader.end();
      read.push(...entriesOf(reader));
      last = reader.lastId;
    }
    assert.equal(assertDense(read), 9000);
    assert.deepEqual(read, await readWhole(service.send, run));
  });

  test('refuses invalid requests with a JSON error', async () => {
    const { id: run } = await steps.running();
    const of = (query: string): Promise<Parameters<typeof assertError>[0]> =>
      service.send('GET', `/runs/${run}/logs/stream${query}`);
    assertError(await of('?after=x'), 400, 'Malformed cursor, or one of another run');
    assertError(await of('?attempt=7'), 404, `Run '${run}' has no attempt 7`);
    assert.equal((await of('?limit=1')).status, 400);
    const head = await service.send('HEAD', `/runs/${run}/logs/stream`);
    assert.match(head.headers.get('content-type') ?? '', /^text\/event-stream/);
    assert.equal(head.headers.get('content-encoding'), 'identity');
    assert.equal(head.headers.get('cache-control'), 'no-cache, no-transform');
    assert.equal(head.headers.get('x-accel-buffering'), 'no');
  });

  async function silenceFor(run: string, time: string): Promise<void> {
    await execute(
      service.dataSource,
      `with silent as (
         update run_logs set updated_at = now() - $2::interval where run_id = $1::uuid
       ),
       reported as (
         update events set t = now() - $2::interval where run_id = $1::uuid
       )
       update runs set finished_at = now() - $2::interval where id = $1::uuid`,
      [run, time],
    );
  }

  test('ends for a run whose worker is stale, after a time of silence', async () => {
    const worker = 'leaving';
    const { id: run } = await steps.running({}, worker);
    await putChunk(service.send, { run, worker }, 0, { firstLine: 0, texts: ['a'] });
    const reader = await open(service, run);
    await reader.count(1);
    const poll = service.send('GET', `/runs/${run}/logs?wait=30&after=${reader.lastId}`);
    await service.send('POST', `/runs/${run}/cancel`);
    const watch = service.app.get(LogCompleteness);
    assert.equal(await watch.wakeReaders(), 0);
    assert.equal(reader.ended, undefined);
    await silenceFor(run, '61 seconds');
    assert.equal(await watch.wakeReaders(), 0, 'its worker is active');
    assert.equal((await service.send('DELETE', `/workers/${worker}`)).status, 204);
    assert.equal(await watch.wakeReaders(), 1);
    await reader.end();
    assert.deepEqual(reader.named, ['end']);
    assert.equal((await poll).headers.get('x-log-complete'), 'true');
    assert.equal(
      (await putChunk(service.send, { run, worker }, 1, { firstLine: 1, texts: ['back'] })).status,
      200,
    );
    assert.equal((await readWhole(service.send, run)).length, 2, 'who comes back late is still heard');
  });

  test('waits longer for the last lines of an active worker, and not for ever', async () => {
    const { id: run } = await steps.running();
    await putChunk(service.send, { run }, 0, { firstLine: 0, texts: ['a'] });
    await service.send('POST', `/runs/${run}/cancel`);
    const isComplete = async (): Promise<string | null> =>
      (await service.send('GET', `/runs/${run}/logs`)).headers.get('x-log-complete');
    const watch = service.app.get(LogCompleteness);
    const reader = await open(service, run);
    await silenceFor(run, '14 minutes 50 seconds');
    assert.deepEqual([await isComplete(), await watch.wakeReaders()], ['false', 0]);
    assert.equal((await putChunk(service.send, { run }, 1, { firstLine: 1, texts: ['b'] })).status, 200);
    await reader.count(2);
    await silenceFor(run, '15 minutes 10 seconds');
    assert.deepEqual([await isComplete(), await watch.wakeReaders()], ['true', 1]);
    await reader.end();
    assert.deepEqual(reader.named, ['end']);
  });

  test('waits for lines after the report of an end, also when the container had ended long before', async () => {
    const worker = 'cut-off';
    const { id: run } = await steps.running({}, worker);
    const { id: retried } = await steps.running({ retry_policy: { max_attempts: 2 } }, worker);
    for (const id of [run, retried]) {
      const hourAgo = `now() - interval '1 hour'`;
      await execute(service.dataSource, `update runs set assigned_at = ${hourAgo} where id = $1::uuid`, [id]);
      const finished_at = new Date(Date.now() - 1_800_000).toISOString();
      const ended = await steps.event(id, 'FAILED', { started_at: finished_at, finished_at });
      assert.equal(ended.current_attempt, id === run ? 1 : 2);
    }
    await service.send('DELETE', `/workers/${worker}`);
    const isComplete = async (id: string): Promise<string | null> =>
      (await service.send('GET', `/runs/${id}/logs?attempt=1`)).headers.get('x-log-complete');
    assert.deepEqual([await isComplete(run), await isComplete(retried)], ['false', 'false']);
    await execute(
      service.dataSource,
      `update events set t = now() - interval '61 seconds' where run_id = any($1::uuid[])`,
      [[run, retried]],
    );
    assert.deepEqual([await isComplete(run), await isComplete(retried)], ['true', 'true']);
  });

  test('answers 204 to a client that connects again after the end, at which an EventSource stops', async () => {
    for (const texts of [[], ['a', 'b']]) {
      const { id: run } = await steps.running();
      await putChunk(service.send, { run }, 0, { firstLine: 0, texts, isLast: true });
      await service.send('POST', `/runs/${run}/cancel`);
      const path = `/runs/${run}/logs/stream`;
      const whole = await service.send('GET', path);
      assert.equal(whole.status, 200);
      const ids = [...whole.text.matchAll(/^id: (.*)$/gm)].map(([, id = '']) => id);
      assert.equal(ids.length, texts.length + 1, 'the end has an id, too');
      const again = await service.send('GET', path, { headers: { 'Last-Event-ID': ids.at(-1) ?? '' } });
      assert.deepEqual([again.status, again.text], [204, '']);
      const byQuery = await service.send('GET', `${path}?after=${ids.at(-1)}`);
      assert.match(byQuery.text, /^id: .*\nevent: end\n/);
      if (texts.length === 0) continue;
      const earlier = await service.send('GET', path, { headers: { 'Last-Event-ID': ids[0] ?? '' } });
      assert.match(earlier.text, /"text":"b".*\n\nid: .*\nevent: end\n/);
    }
  });

  test('ends without the end event when the run is removed, which is then unknown', async () => {
    const { id: run } = await steps.running();
    const reader = await open(service, run);
    await execute(service.dataSource, 'delete from runs where id = $1::uuid', [run]);
    assert.equal(await service.app.get(LogCompleteness).wakeReaders(), 1);
    await reader.end();
    assert.deepEqual([reader.named, reader.ended], [[], 'whole']);
    assert.equal((await service.send('GET', `/runs/${run}/logs/stream`)).status, 404);
  });

  test('stays open while its database connections are terminated, and misses no line', async () => {
    const { id: run } = await steps.running();
    const reader = await open(service, run);
    for (let n = 0; n < 3; n += 1) {
      await service.dataSource
        .query(
          `select pg_terminate_backend(pid)
             from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()`,
        )
        .catch(() => undefined);
      const deadline = performance.now() + 120_000;
      while ((await putChunk(service.send, { run }, n, { firstLine: n, texts: [`${n}`] })).status !== 200) {
        assert.ok(performance.now() < deadline);
      }
      await reader.count(n + 1);
    }
    assert.deepEqual(entriesOf(reader), await readWhole(service.send, run));
    reader.close();
  });

  test('ends at once when the service drains', async () => {
    const own = await startTestApp({ database: service.database });
    const { id: run } = await steps.running();
    const reader = await open(own, run);
    await own.app.get(Drain).begin();
    await reader.end();
    assert.deepEqual([reader.named, reader.ended], [[], 'whole']);
    await own.close();
  });
});
