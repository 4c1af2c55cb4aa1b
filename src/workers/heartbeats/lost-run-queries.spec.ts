import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test, vi } from 'vitest';
import type { LostRun } from '../../runs/storage/held-run.repository.js';
import { LostRunQueries, type Report } from './lost-run-queries.js';

interface Statement {
  readonly reports: readonly Report[];
  /** Says that the first run of each report is lost. */
  readonly answer: () => void;
  readonly fail: () => void;
}

function looking(): { readonly looks: LostRunQueries; readonly statements: Statement[] } {
  const statements: Statement[] = [];
  const looks = new LostRunQueries(
    (reports) =>
      new Promise((resolve, reject) => {
        const answer = () => resolve(new Map(reports.map((report) => [report, lostOf(report)])));
        statements.push({ reports, answer, fail: () => reject(new Error('connection lost')) });
      }),
  );
  return { looks, statements };
}

function lostOf(report: Report): LostRun[] {
  return report.slice(0, 1).map(({ id }) => ({ id, state: 'CANCELLED', attempt: 1, workerId: 'w' }));
}

function reportOf(name: string, runs: number): Report {
  return Array.from({ length: runs }, (_, n) => ({
    id: `${name}${n}`,
    workerId: 'w',
    attempt: 1,
    boundKey: null,
  }));
}

const { signal: never } = new AbortController();

describe('looks for lost runs', () => {
  test('of one turn share a statement, each with its own runs', async () => {
    const { looks, statements } = looking();
    const [a, b] = [reportOf('a', 2), reportOf('b', 3)];
    const found = [looks.find(a, never), looks.find(b, never)];
    await nextTurn();
    assert.deepEqual(
      statements.map(({ reports }) => reports),
      [[a, b]],
    );
    statements[0]?.answer();
    assert.deepEqual(await Promise.all(found), [lostOf(a), lostOf(b)]);
  });

  test('share a statement up to a thousand runs, and two statements are under way at most', async () => {
    const { looks, statements } = looking();
    const found = Array.from({ length: 9 }, (_, n) => looks.find(reportOf(`${n}-`, 400), never));
    const sizes = () => statements.map(({ reports }) => reports.flat().length);
    await nextTurn();
    assert.deepEqual(sizes(), [800, 800]);
    for (let at = 0; at < 5; at += 1) {
      statements[at]?.answer();
      await nextTurn();
    }
    assert.deepEqual(sizes(), [800, 800, 800, 800, 400]);
    assert.equal((await Promise.all(found)).flat().length, 9);
  });

  test('do not know after an error, and go on with the next statement', async () => {
    const { looks, statements } = looking();
    const failed = looks.find(reportOf('a', 1), never);
    await nextTurn();
    statements[0]?.fail();
    assert.equal(await failed, null);
    const next = looks.find(reportOf('b', 1), never);
    await nextTurn();
    statements[1]?.answer();
    assert.equal((await next)?.length, 1);
  });

  test('that are aborted or over their time are not read any more', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { looks, statements } = looking();
    const busy: Promise<unknown>[] = [];
    for (const name of ['a', 'b']) {
      busy.push(looks.find(reportOf(name, 1), never));
      await nextTurn();
    }
    const gone = new AbortController();
    const waiting = [looks.find(reportOf('c', 1), gone.signal), looks.find(reportOf('d', 1), never)];
    gone.abort();
    vi.advanceTimersByTime(2_000);
    assert.deepEqual(await Promise.all([...busy, ...waiting]), [null, null, null, null]);
    const last = looks.find(reportOf('e', 1), never);
    statements[0]?.answer();
    await nextTurn();
    assert.deepEqual(
      statements.slice(2).map(({ reports }) => reports.flat().map(({ id }) => id)),
      [['e0']],
    );
    statements[2]?.answer();
    assert.equal((await last)?.length, 1);
  });
});
