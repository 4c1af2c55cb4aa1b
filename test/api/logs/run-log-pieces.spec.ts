import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { readApiDocument } from '../../support/fuzz/api-document.js';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import {
  assertDense,
  putChunk,
  readLog,
  readWhole,
  told,
  type ReadEntry,
} from '../../support/runs/run-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const t = '2026-01-02T03:04:05.678Z';

describe('what is read of a log whose lines are in pieces or missing', () => {
  const service = useTestApp();
  const { send } = service;
  const steps = new RunSteps(send);

  const put = async (run: string, chunk: number, body: object): Promise<void> => {
    const headers = { 'X-Worker-Id': 'w', 'X-Run-Attempt': '1' };
    const answer = await send('PUT', `/runs/${run}/logs/${chunk}`, { body, headers });
    assert.equal(answer.status, 200, answer.text);
  };

  test('shows the pieces of a line as one: in the text, in a search, and in what limits count', async () => {
    const { id: run } = await steps.running();
    const longest = 'x'.repeat(16_383);
    const lines = [
      { t, stream: 'stdout', text: 'first' },
      { t, stream: 'stdout', text: `${longest}b` },
      { t, stream: 'stdout', text: 'order', continued: true },
      { t, stream: 'stdout', text: ' end', continued: true },
      { t, stream: 'stderr', text: 'other', continued: true },
      { t, stream: 'stdout', text: 'last' },
    ];
    for (const [chunk, [from, to]] of [
      [0, 2],
      [2, 6],
    ].entries()) {
      await put(run, chunk, { first_line: from, lines: lines.slice(from, to), is_last: to === lines.length });
    }
    const plain = await send('GET', `/runs/${run}/logs`, { headers: { Accept: 'text/plain' } });
    assert.equal(plain.text, `first\n${longest}border end\nother\nlast\n`);
    const pieces = [`${longest}b`, 'order', ' end'];
    for (const query of ['contains=BORDER', 'contains=r%20end&tail=1']) {
      const found = await readLog(send, run, query);
      assert.deepEqual(told(found.entries), pieces, query);
    }
    assert.deepEqual(told((await readLog(send, run, 'contains=endother')).entries), []);
    assert.deepEqual(told((await readLog(send, run, 'limit=2')).entries), ['first', ...pieces]);
    assert.deepEqual(told((await readLog(send, run, 'tail=3')).entries), [...pieces, 'other', 'last']);
    const all = await readWhole(send, run, 'limit=1');
    assert.deepEqual(told(all), ['first', ...pieces, 'other', 'last']);
    for (let page = await readLog(send, run, 'tail=1'), rest = all; ;) {
      assert.deepEqual(page.entries, rest.slice(rest.length - page.entries.length));
      rest = rest.slice(0, rest.length - page.entries.length);
      if (!page.hasPrevious) break;
      page = await readLog(send, run, `limit=1&before=${page.previous}`);
    }
    assert.deepEqual(
      told((await readLog(send, run, `after=${all[1]?.cursor}&limit=1`)).entries),
      pieces.slice(1),
    );
    assert.deepEqual(
      told((await readLog(send, run, `before=${all[2]?.cursor}&limit=1`)).entries),
      pieces.slice(0, 2),
    );
  });

  test('reads a line of very many pieces in parts of 1,000, and 5,000 pieces a page, in both directions and as a stream', async () => {
    const { id: run } = await steps.running();
    const count = 13_000;
    for (let from = 0; from < count; from += 5_000) {
      const lines = Array.from({ length: Math.min(5_000, count - from) }, (_, n) => ({
        t,
        stream: 'stdout',
        text: '',
        continued: from + n > 0,
      }));
      await put(run, from / 5_000, { first_line: from, lines, is_last: from + lines.length === count });
    }
    for (const [query, read] of [
      ['limit=1', 1_000],
      ['limit=2', 2_000],
      ['limit=5000', 5_000],
    ] as const) {
      const page = await readLog(send, run, query);
      assert.deepEqual([page.entries.length, page.hasMore], [read, true], query);
      const newest = await readLog(send, run, query.replace('limit', 'tail'));
      assert.deepEqual([newest.entries.length, newest.hasPrevious], [read, true], query);
    }
    const whole = await readWhole(send, run, 'limit=5000');
    assert.equal(assertDense(whole), count);
    let backwards: readonly ReadEntry[] = [];
    for (let page = await readLog(send, run, 'tail=5000'); ;) {
      backwards = [...page.entries, ...backwards];
      if (!page.hasPrevious) break;
      page = await readLog(send, run, `limit=5000&before=${page.previous}`);
    }
    assert.deepEqual(backwards, whole);
    const stream = await EventStreamReader.open(service.url, `/runs/${run}/logs/stream`);
    await stream.end();
    assert.deepEqual(
      stream.events.map(({ data }) => data),
      whole,
    );
  });

  test('a search compares without colours and titles, also across pieces, and keeps what was written over apart', async () => {
    const { id: run } = await steps.running();
    const lines = [
      { t, stream: 'stdout', text: '\u001b[31mERROR\u001b[0m: disk\u001b]0;title\u0007 full' },
      { t, stream: 'stdout', text: 'a \u001b[3' },
      { t, stream: 'stdout', text: '1mborder', continued: true },
      { t, stream: 'stderr', text: '10 %\r20 % ok' },
    ];
    await put(run, 0, { first_line: 0, lines, is_last: true });
    for (const [contains, found] of [
      ['error: DISK full', [lines[0]]],
      ['a border', [lines[1], lines[2]]],
      ['20 % ok', [lines[3]]],
      ['[31m', []],
      ['title', []],
      ['10 %20', []],
    ] as const) {
      for (const query of [
        `contains=${encodeURIComponent(contains)}`,
        `tail=5&contains=${encodeURIComponent(contains)}`,
      ]) {
        assert.deepEqual(
          told((await readLog(send, run, query)).entries),
          found.map((line) => line?.text),
          query,
        );
      }
    }
  });

  test('keeps pieces of different lines apart in the text of a search', async () => {
    const { id: run } = await steps.running();
    const lines = [
      { t, stream: 'stdout', text: 'foo A' },
      { t, stream: 'stdout', text: 'bar' },
      { t, stream: 'stderr', text: 'z' },
      { t, stream: 'stdout', text: 'foo B', continued: true },
    ];
    await put(run, 0, { first_line: 0, lines, is_last: true });
    for (const query of ['contains=foo', 'contains=foo&tail=5']) {
      const found = await send('GET', `/runs/${run}/logs?${query}`, { headers: { Accept: 'text/plain' } });
      assert.equal(found.text, 'foo A\nfoo B\n', query);
    }
  });

  test('a search of a log that grows finds text that crosses into a piece which comes later', async () => {
    const { id: run } = await steps.running();
    const lines = ['a border', 'half b'].map((text) => ({ t, stream: 'stdout', text }));
    await put(run, 0, { first_line: 0, lines });
    const search = 'contains=border';
    const early = await readLog(send, run, search);
    const newest = await readLog(send, run, `${search}&tail=5`);
    for (const page of [early, newest]) {
      assert.deepEqual([told(page.entries), page.hasMore, page.isComplete], [['a border'], false, false]);
    }
    const waiting = readLog(send, run, `${search}&wait=30&after=${early.next}`);
    await put(run, 1, { first_line: 2, lines: [{ t, stream: 'stdout', text: 'order', continued: true }] });
    assert.deepEqual(told((await waiting).entries), ['half b', 'order']);
    for (const { next } of [early, newest]) {
      const later = await readLog(send, run, `${search}&after=${next}`);
      assert.deepEqual(told(later.entries), ['half b', 'order']);
    }
    await put(run, 2, { first_line: 3, lines: [{ t, stream: 'stdout', text: 'end' }], is_last: true });
    const end = await readLog(send, run, `${search}&after=${(await waiting).next}`);
    assert.deepEqual([end.entries, end.hasMore, end.isComplete], [[], false, true]);
    assert.equal(end.next, (await readLog(send, run)).next);
  });

  test('counts at the end of a log each piece, as lines are numbered, and the API says so', async () => {
    const { id: run } = await steps.running();
    const lines = [
      { t, stream: 'stdout', text: 'x' },
      { t, stream: 'stdout', text: 'y', continued: true },
    ];
    await put(run, 0, { first_line: 0, lines, is_last: true });
    const { lines: count, entries } = await readLog(send, run);
    assert.deepEqual([count, entries.at(-1)?.line], [{ printed: 2, leftOut: 0 }, 1]);
    const { headers } = Object(readApiDocument()).paths['/runs/{id}/logs'].get.responses[200];
    assert.match(headers['X-Log-Lines'].description, /each piece of a line counted/);
  });

  test('counts at the end of a log the lines that are not stored, whether the worker or the limit left them out', async () => {
    const { id: run } = await steps.running();
    const texts = Array.from({ length: 56 }, (_, n) => `${n} `.padEnd(16_384, 'x'));
    // 18 MB of text; the limit of 16 MiB leaves a gap in the middle, and the worker one of 5 lines.
    for (let chunk = 0; chunk < 20; chunk += 1) {
      const firstLine = chunk * 56 + (chunk > 0 ? 5 : 0);
      const answer = await putChunk(send, { run }, chunk, { firstLine, texts });
      assert.equal(answer.status, 200, answer.text);
    }
    const printed = 20 * 56 + 5;
    assert.equal((await readLog(send, run, 'tail=1')).lines, null);
    await putChunk(send, { run }, 20, { firstLine: printed, texts: [], isLast: true });
    const whole = await readWhole(send, run, 'limit=5000');
    const missing = whole.reduce((sum, { gap }) => sum + (gap?.lines ?? 0), 0);
    assert.ok(missing > 5);
    const { lines, isComplete } = await readLog(send, run, 'tail=1');
    assert.deepEqual([isComplete, lines], [true, { printed, leftOut: missing }]);
  });
});
