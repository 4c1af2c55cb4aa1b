import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'vitest';
import { setImmediate } from 'node:timers/promises';
import { assertError } from '../../support/http/answer-shapes.js';
import { assertDense, logOf, putChunk, readLog, readWhole, told } from '../../support/runs/run-log.js';
import { beforeTimeOut } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { hashApiKey } from '../../../src/auth/api-key.js';
import { LogSearches } from '../../../src/run-logs/log-reader.js';
import { KEYS, startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const UNKNOWN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

describe('GET /runs/{id}/logs', () => {
  const service = useTestApp();
  const other = useTestApp(() => ({ database: service.database }));
  const { send } = service;
  const steps = new RunSteps(send);

  /** A run with so many lines, `line 0` and on, ten a chunk. */
  async function logged(lines: number, isLast = true): Promise<string> {
    const { id: run } = await steps.running();
    for (let from = 0; from < lines; from += 10) {
      const texts = Array.from({ length: Math.min(10, lines - from) }, (_, n) => `line ${from + n}`);
      const last = isLast && from + 10 >= lines;
      const answer = await putChunk(send, { run }, from / 10, { firstLine: from, texts, isLast: last });
      assert.equal(answer.status, 200, answer.text);
    }
    return run;
  }

  test('returns lines as printed: number, time, stream, text, and whether they continue a long line', async () => {
    const { id: run } = await steps.running();
    const body = {
      first_line: 0,
      lines: [
        { t: '2026-01-02T03:04:05.678Z', stream: 'stdout', text: 'ä "😀"\tx' },
        { t: '2026-01-02T04:04:05.6789+01:00', stream: 'stderr', text: '', continued: true },
      ],
      is_last: true,
    };
    const headers = { 'X-Worker-Id': 'w', 'X-Run-Attempt': '1' };
    assert.equal((await send('PUT', `/runs/${run}/logs/0`, { body, headers })).status, 200);
    const answer = await send('GET', `/runs/${run}/logs`, { key: KEYS.client });
    assert.equal(answer.headers.get('content-type'), 'application/x-ndjson; charset=utf-8');
    const { entries, previous, ...page } = logOf(answer);
    assert.match(previous, /^[\w-]{32}$/);
    const [first, second] = entries.map(({ cursor, ...rest }) => {
      assert.match(cursor, /^[\w-]{32}$/);
      return rest;
    });
    assert.deepEqual(first, { line: 0, t: '2026-01-02T03:04:05.678Z', stream: 'stdout', text: 'ä "😀"\tx' });
    assert.deepEqual(second, {
      line: 1,
      t: '2026-01-02T03:04:05.678Z',
      stream: 'stderr',
      text: '',
      continued: true,
    });
    assert.deepEqual(page, {
      next: entries[1]?.cursor,
      isComplete: true,
      hasMore: false,
      hasPrevious: false,
      attempt: 1,
      lines: { printed: 2, leftOut: 0 },
    });
  });

  test('reads backwards from any position without a gap or a repeat, with and without a search', async () => {
    const run = await logged(57);
    for (const query of ['', '&contains=3']) {
      const forwards = await readWhole(send, run, `limit=8${query}`);
      let page = await readLog(send, run, `tail=8${query}`);
      let backwards = page.entries;
      while (page.hasPrevious) {
        page = await readLog(send, run, `limit=8${query}&before=${page.previous}`);
        assert.equal(page.hasMore, true);
        backwards = [...page.entries, ...backwards];
      }
      assert.deepEqual(backwards, forwards, query);
    }
    const [, second] = (await readLog(send, run, 'limit=2')).entries;
    const page = await readLog(send, run, `before=${second?.cursor}`);
    assert.deepEqual(told(page.entries), ['line 0', 'line 1']);
    assert.equal(page.next, second?.cursor);
    const ends = await readLog(send, run, `before=${page.previous}`);
    assert.deepEqual([ends.entries, ends.hasPrevious, ends.hasMore], [[], false, true]);
  });

  test('reads backwards over gaps, and from within one', async () => {
    const { id: run } = await steps.running();
    await putChunk(send, { run }, 0, { firstLine: 5, texts: ['5', '6'] });
    await putChunk(send, { run }, 1, { firstLine: 100, texts: ['100'], isLast: true });
    const all = (await readLog(send, run)).entries;
    assert.deepEqual(told(all), ['-5', '5', '6', '-93', '100']);
    for (const [n, { cursor }] of all.entries()) {
      const { entries, hasPrevious } = await readLog(send, run, `before=${cursor}`);
      assert.deepEqual(entries, all.slice(0, n + 1));
      assert.equal(hasPrevious, false);
    }
    const one = await readLog(send, run, `limit=1&before=${all[3]?.cursor}`);
    assert.deepEqual(told(one.entries), ['6', '-93']);
    const rest = await readLog(send, run, `before=${one.previous}`);
    assert.deepEqual(rest.entries, all.slice(0, 2));
  });

  test('accepts one position only', async () => {
    const run = await logged(3);
    const { next } = await readLog(send, run);
    for (const query of [`before=${next}&after=${next}`, `before=${next}&tail=2`]) {
      assert.equal((await send('GET', `/runs/${run}/logs?${query}`)).status, 400, query);
    }
    assert.equal((await send('GET', `/runs/${run}/logs?before=nothing`)).status, 400);
  });

  test('returns plain text for Accept: text/plain, and JSON lines otherwise', async () => {
    const { id: run } = await steps.running();
    await putChunk(send, { run }, 0, { firstLine: 0, texts: ['a', ''] });
    await putChunk(send, { run }, 1, { firstLine: 3, texts: ['b'] });
    const as = (Accept: string): ReturnType<TestApp['send']> =>
      send('GET', `/runs/${run}/logs`, { headers: { Accept } });
    const plain = await as('text/plain');
    assert.equal(plain.text, 'a\n\n[... 1 line left out ...]\nb\n');
    assert.equal(plain.headers.get('content-type'), 'text/plain; charset=utf-8');
    for (const accept of ['*/*', 'application/x-ndjson', 'application/json', 'text/html,*/*;q=0.8']) {
      assert.equal(
        (await as(accept)).headers.get('content-type'),
        'application/x-ndjson; charset=utf-8',
        accept,
      );
    }
  });

  test('continues behind the cursor of a line or a page without a gap or a repeat', async () => {
    const run = await logged(95);
    const all = await readWhole(send, run);
    assert.equal(assertDense(all), 95);
    for (const limit of [1, 7, 50]) {
      const entries = await readWhole(other.send, run, `limit=${limit}`);
      assert.deepEqual(entries, all);
    }
    for (const entry of all) {
      const page = await readLog(send, run, `after=${entry.cursor}&limit=1`);
      assert.deepEqual(page.entries, all.slice(entry.line + 1, entry.line + 2));
      assert.equal(page.hasMore, entry.line < 93);
      assert.equal(page.isComplete, entry.line >= 93);
    }
  });

  test('returns the newest lines for a tail, and continues behind them', async () => {
    const run = await logged(42, false);
    const all = await readWhole(send, run);
    for (const tail of [1, 9, 10, 41, 42, 43, 5000]) {
      const page = await readLog(send, run, `tail=${tail}`);
      assert.deepEqual(page.entries, all.slice(-tail), `tail=${tail}`);
      assert.equal(page.next, all.at(-1)?.cursor);
      assert.deepEqual([page.hasMore, page.isComplete], [false, false]);
    }
    await putChunk(send, { run }, 5, { firstLine: 50, texts: ['new'], skippedBytes: 11 });
    const { next } = await readLog(send, run, `after=${all.at(-1)?.cursor}`);
    const tail = await readLog(send, run, 'tail=3');
    assert.deepEqual(told(tail.entries), ['line 40', 'line 41', '-8', 'new']);
    assert.deepEqual(tail.entries[2]?.gap, { lines: 8, bytes: 11 });
    assert.equal(tail.next, next);
    assertError(
      await send('GET', `/runs/${run}/logs?tail=1&after=${next}`),
      400,
      'Request validation failed',
      ['tail must not be given together with after'],
    );
  });

  test('searches ignoring case, from a position or for the newest lines, and returns its position', async () => {
    const run = await logged(120);
    const found = await readLog(send, run, 'contains=INE%2011');
    assert.deepEqual(told(found.entries), [
      'line 11',
      ...Array.from({ length: 10 }, (_, n) => `line ${110 + n}`),
    ]);
    assert.deepEqual([found.hasMore, found.isComplete], [false, true]);
    const few = await readLog(send, run, 'contains=line%2011&limit=2');
    assert.deepEqual([told(few.entries), few.hasMore], [['line 11', 'line 110'], true]);
    const rest = await readLog(send, run, `contains=line%2011&after=${few.next}`);
    assert.equal(rest.entries.length, 9);
    const newest = await readLog(send, run, 'contains=line%2011&tail=10');
    assert.deepEqual(told(newest.entries), told(found.entries).slice(1));
    const nothing = await readLog(send, run, 'contains=nowhere');
    assert.deepEqual([nothing.entries, nothing.isComplete], [[], true]);
  });

  test('bounds the searches of a key and of all; pages without a search go on meanwhile', async () => {
    const limited = await startTestApp({
      env: { SERVICE_LOG_SEARCHES_PER_KEY: '2', SERVICE_LOG_SEARCHES: '3' },
      database: service.database,
    });
    const run = await logged(10);
    const search = (key: string): Promise<TestAnswer> =>
      limited.send('GET', `/runs/${run}/logs?contains=LINE`, { key });
    const searches = limited.app.get(LogSearches);
    // A search that does not end.
    const end = new AbortController();
    const endless = once(end.signal, 'abort');
    const blocking = searches.run(hashApiKey(KEYS.client), () => endless);
    const waiting = [search(KEYS.client)];
    while (searches.size < 2) await setImmediate();
    const refused = await search(KEYS.client);
    assert.equal(refused.status, 429);
    assert.deepEqual(refused.body, {
      detail: 'Too many searches of logs of this API key: at most 2 (SERVICE_LOG_SEARCHES_PER_KEY)',
    });
    waiting.push(search(KEYS.admin));
    while (searches.size < 3) await setImmediate();
    const full = await search(KEYS.admin);
    assert.deepEqual(
      [full.status, full.body.detail],
      [503, 'Too many searches of logs: at most 3 (SERVICE_LOG_SEARCHES)'],
    );
    const page = await limited.send('GET', `/runs/${run}/logs`, { key: KEYS.client });
    assert.equal(logOf(page).entries.length, 10);
    end.abort();
    await blocking;
    for (const answer of await Promise.all(waiting)) assert.equal(logOf(answer).entries.length, 10);
    await limited.close();
  });

  test('bounds the work: a page of long lines and a long search end before the log does', async () => {
    const { id: run } = await steps.running();
    const texts = Array.from({ length: 56 }, (_, n) => `${n} `.padEnd(16_384, 'x'));
    // 18 MB of text; a limit of 16 MiB leaves a gap in the middle.
    for (let chunk = 0; chunk < 20; chunk += 1) {
      const answer = await putChunk(send, { run }, chunk, { firstLine: chunk * 56, texts });
      assert.equal(answer.status, 200, answer.text);
    }
    const page = await readLog(send, run, 'limit=5000');
    assert.ok(page.hasMore && page.entries.length >= 256 && page.entries.length < 300, 'a page of 4 MiB');
    const whole = await readWhole(send, run, 'limit=5000');
    assert.equal(assertDense(whole), 20 * 56);
    assert.equal(whole.filter(({ gap }) => gap !== undefined).length, 1);
    const tail = await readLog(send, run, 'tail=5000');
    assert.ok(tail.entries.length < 300);
    assert.equal(tail.entries.at(-1)?.line, 20 * 56 - 1);
    const searched = await readLog(send, run, 'contains=nowhere');
    assert.ok(searched.entries.every(({ gap }) => gap !== undefined));
  });

  test('reads the log of the current or the given attempt; a cursor belongs to one attempt', async () => {
    const { id: run } = await steps.running({ retry_policy: { max_attempts: 2 } });
    await putChunk(send, { run }, 0, { firstLine: 0, texts: ['1a', '1b'], isLast: true });
    const first = await readLog(send, run, 'limit=1');
    await steps.event(run, 'FAILED');
    const pending = await readLog(send, run);
    assert.deepEqual([pending.entries, pending.attempt, pending.isComplete], [[], 2, false]);
    await steps.claimUntil(run);
    await putChunk(send, { run, attempt: 2 }, 0, { firstLine: 0, texts: ['2a'] });
    assert.deepEqual(told((await readLog(send, run)).entries), ['2a']);
    assert.deepEqual(told((await readLog(send, run, 'attempt=1')).entries), ['1a', '1b']);
    const resumed = await readLog(send, run, `after=${first.next}`);
    assert.deepEqual([told(resumed.entries), resumed.attempt, resumed.isComplete], [['1b'], 1, true]);
    const both = await send('GET', `/runs/${run}/logs?attempt=2&after=${first.next}`);
    assertError(both, 400, 'The cursor belongs to the log of another attempt');
    assertError(await send('GET', `/runs/${run}/logs?attempt=3`), 404, `Run '${run}' has no attempt 3`);
  });

  test('is empty and incomplete before the first line, and complete if there can be no line', async () => {
    const { id: run } = await steps.create();
    const page = await readLog(send, run);
    assert.deepEqual([page.entries, page.isComplete, page.hasMore], [[], false, false]);
    assert.deepEqual((await readLog(send, run, `after=${page.next}`)).entries, []);
    await send('POST', `/runs/${run}/cancel`);
    assert.equal((await readLog(send, run)).isComplete, true);
  });

  test('refuses a cursor of another log, and returns 404 for unknown runs', async () => {
    const run = await logged(3, false);
    const longer = await logged(20);
    const foreign = (await readLog(send, longer)).next;
    for (const cursor of ['x', foreign, foreign.slice(1)]) {
      assertError(
        await send('GET', `/runs/${run}/logs?after=${cursor}`),
        400,
        'Malformed cursor, or one of another run',
      );
    }
    const { next } = await readLog(send, run);
    await service.dataSource.query('update run_logs set next_line = 1 where run_id = $1', [run]);
    assertError(await send('GET', `/runs/${run}/logs?after=${next}`), 400, 'The cursor is ahead of the log');
    for (const id of [UNKNOWN, 'nope']) {
      assertError(await send('GET', `/runs/${id}/logs`), 404, `OpRun '${id}' not found`);
      assertError(await send('GET', `/runs/${id}/logs/stream`), 404, `OpRun '${id}' not found`);
    }
    for (const query of ['limit=0', 'limit=5001', 'wait=31', 'tail=0', 'attempt=0', 'contains=', 'nope=1']) {
      assert.equal((await send('GET', `/runs/${run}/logs?${query}`)).status, 400, query);
    }
  });

  test('holds an empty page until a line arrives through any process', async () => {
    const run = await logged(1, false);
    let { next } = await readLog(send, run);
    for (const [n, sender] of [other, service, other].entries()) {
      const waiting = readLog(send, run, `after=${next}&wait=30`);
      await sender.send('GET', '/health');
      await putChunk(sender.send, { run }, n + 1, { firstLine: n + 1, texts: [`news ${n}`] });
      const page = await waiting;
      assert.deepEqual(told(page.entries), [`news ${n}`]);
      ({ next } = page);
    }
    const searching = readLog(send, run, `after=${next}&wait=30&contains=wanted`);
    await putChunk(other.send, { run }, 4, { firstLine: 4, texts: ['no'] });
    await putChunk(other.send, { run }, 5, { firstLine: 5, texts: ['this is WANTED'] });
    assert.deepEqual(told((await searching).entries), ['this is WANTED']);
  });

  test('stops waiting when the log is complete, and does not wait for a complete log', async () => {
    const run = await logged(1, false);
    const { next } = await readLog(send, run);
    const waiting = readLog(send, run, `after=${next}&wait=30`);
    await putChunk(other.send, { run }, 1, { firstLine: 1, texts: [], isLast: true });
    const page = await beforeTimeOut(service, waiting);
    assert.deepEqual([page.entries, page.isComplete, page.next], [[], true, next]);
    await beforeTimeOut(service, readLog(send, run, `after=${next}&wait=30`));
  });

  test('returns an empty page when the time is over', async () => {
    const run = await logged(1, false);
    const { next } = await readLog(send, run);
    const page = await readLog(send, run, `after=${next}&wait=1`);
    assert.deepEqual([page.entries, page.isComplete, page.next], [[], false, next]);
  });
});
