import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { RunReader } from '../../../src/runs/reading/run.reader.js';
import { DatabaseProxy } from '../../support/postgres/database-proxy.js';
import { proxied } from '../../support/postgres/proxied-database.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

function filler(bytes: number): { readonly filler: string } {
  return { filler: 'é"\\'.repeat(bytes / 4) };
}

describe('concurrent reads', () => {
  const statements = logStatements();
  const service = useTestApp();
  const other = useTestApp(() => ({ database: service.database }));
  const steps = new RunSteps(service.send);

  /** Runs with up to three events. */
  function create(count: number): Promise<string[]> {
    return Promise.all(
      Array.from({ length: count }, async (_, n) => {
        const { id } = await steps.create({ inputs: { n } });
        for (let event = 0; event <= n % 3; event += 1) await steps.event(id, 'NOTE', { of: n }, event);
        return id;
      }),
    );
  }

  test('that begin together need one statement', async () => {
    const ids = await create(64);
    const reader = service.app.get(RunReader);
    for (const read of [
      (id: string) => reader.getRun(id),
      (id: string) => reader.getRun(id, false),
      (id: string) => reader.getVersion(id),
      (id: string) => reader.readTimeline(id, 0),
    ]) {
      statements.length = 0;
      await Promise.all(ids.map((id): Promise<unknown> => read(id)));
      const reads = statements.filter((statement) => statement.includes('runs r'));
      assert.equal(reads.length, 1, `${reads.length} statements for 64 reads`);
    }
  });

  for (const part of ['', '?include_events=false', '/events', '/events?after=0']) {
    test(`of /runs/{id}${part} answer each its own run`, async () => {
      const ids = await create(64);
      const alone = [];
      for (const id of ids) alone.push((await service.send('GET', `/runs/${id}${part}`)).body);
      const together = await Promise.all(ids.map((id) => service.send('GET', `/runs/${id}${part}`)));
      assert.deepEqual(
        together.map(({ body }) => body),
        alone,
      );
    });
  }

  test('of small and large runs and timelines answer each of them whole', async () => {
    const ids: string[] = [];
    for (const bytes of [10, 20_000, 100, 40_000]) {
      const { id } = await steps.create({ inputs: filler(bytes) });
      for (let event = 0; event < 5; event += 1) await steps.event(id, 'NOTE', filler(bytes), `é ${event}`);
      ids.push(id);
    }
    const { id: long } = await steps.create();
    for (let event = 0; event < 120; event += 1) await steps.note(long);
    ids.push(long);
    const runs = await Promise.all(ids.map((id) => steps.get(id)));
    const polls = await Promise.all(ids.map((id) => steps.poll(id)));
    runs.forEach((run, at) => {
      const expected = at === 4 ? 120 : 5;
      assert.deepEqual(
        run.events.map((event: { id: number }) => event.id),
        Array.from({ length: expected }, (_, n) => n),
      );
      const [first] = run.events;
      assert.deepEqual(
        polls[at],
        run.events.map(({ attempt, ...event }: { attempt: number }) => {
          assert.equal(attempt, 1);
          return { ...event, state: 'PENDING' };
        }),
      );
      if (at < 4) assert.deepEqual([run.inputs, first.msg], [first.payload, 'é 0']);
    });
  });

  test('of runs with long timelines or many bytes read no events that they do not answer', async () => {
    const { id: long } = await steps.create();
    for (let event = 0; event < 101; event += 1) await steps.note(long);
    const { id: large } = await steps.create({ inputs: filler(40_000) });
    await steps.note(large);
    const { id: small } = await steps.create();
    await steps.note(small);
    statements.length = 0;
    assert.equal((await steps.get(long)).events.length, 101);
    const { text } = JSON.parse(statements.find((one) => one.includes('string_agg')) ?? assert.fail());
    assert.equal(statements.filter((statement) => /\bevents e\b/.test(statement)).length, 2);
    const plans = await Promise.all(
      [long, large, small].map(async (id) => {
        const found = await service.dataSource.query(`explain analyze ${text}`, [`{${id}}`, 16_384]);
        return /events.*never executed/.test(JSON.stringify(found));
      }),
    );
    assert.deepEqual(plans, [true, true, false]);
  });

  test('see every write that either process has acknowledged', async () => {
    const readers = [service, other];
    await Promise.all(
      Array.from({ length: 16 }, async (_, n) => {
        const { id } = await steps.create();
        for (let event = 0; event < 10; event += 1) {
          const writer = readers[(n + event) % 2] ?? service;
          const reader = readers[(n + event + 1) % 2] ?? other;
          const body = { type: 'NOTE', msg: event };
          assert.equal((await writer.send('POST', `/runs/${id}/events`, { body })).status, 200);
          const [run, bare, events] = await Promise.all([
            reader.send('GET', `/runs/${id}`),
            reader.send('GET', `/runs/${id}?include_events=false`),
            reader.send('GET', `/runs/${id}/events?after=${event - 1}`),
          ]);
          assert.equal(run.body.events.length, event + 1);
          assert.equal(bare.body.updatedAt, run.body.updatedAt);
          assert.deepEqual(
            events.body.events.map(({ msg }: { msg: number }) => msg),
            [event],
          );
        }
      }),
    );
  });

  test('all answer 503 while the database is away, and are answered again after it', async () => {
    const proxy = await DatabaseProxy.open(service.database.url);
    const cutOff = await startTestApp({ database: proxied(service.database, proxy) });
    try {
      const ids = await create(20);
      const statuses = async (): Promise<ReadonlySet<number>> => {
        const parts = ids.flatMap((id) => [`/runs/${id}`, `/runs/${id}/events`]);
        const answers = await Promise.all(parts.map((path) => cutOff.send('GET', path)));
        return new Set(answers.map(({ status }) => status));
      };
      assert.deepEqual(await statuses(), new Set([200]));
      await proxy.refuse();
      assert.deepEqual(await statuses(), new Set([503]));
      await proxy.allow();
      while ((await cutOff.send('GET', `/runs/${ids[0]}`)).status !== 200) await sleep(25);
      assert.deepEqual(await statuses(), new Set([200]));
    } finally {
      await cutOff.close();
      await proxy.refuse();
    }
  });
});
