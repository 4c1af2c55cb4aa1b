import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { sendNotice } from '../../../src/database/notices/commit-notice.js';
import { rows } from '../../../src/database/sql/sql.js';
import { senderTo } from '../../support/app/test-app.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { SeededRandom } from '../../support/history/seeded-random.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const PROCESSES = 4;
const SCHEDULES = 200;
const MINUTES = atDepth({ fast: 3, all: 6, soak: 30 });
const MINUTE = 60_000;
const ADMIN_KEY = 'schedules-admin-key-of-the-tests';

/** Longest time after the beginning of a minute at which processes are killed: firing takes as long. */
const LATEST_KILL_MS = 400;

/** How long a living process may still fire what it has taken. */
const FIRING_MS = 3_000;

/** Rules of a quarter of the schedules each. */
const RULES = [
  { overlap: 'allow', catch_up: { policy: 'all' } },
  { overlap: 'allow', catch_up: { policy: 'latest' } },
  { overlap: 'skip', catch_up: { policy: 'all' } },
  { overlap: 'cancel_previous', catch_up: { policy: 'all' } },
] as const;

/**
 * Makes the clock of the database one that can be set: its sessions find this function before the one of PostgreSQL. Only connections that
 * are opened afterwards have it.
 */
async function makeClock({ url, dataSource }: TestDatabase): Promise<void> {
  await dataSource.query(`
    create schema clock;
    create table clock.shift as select interval '0' as ahead;
    create function public.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.clock_timestamp() + ahead from clock.shift';
    alter database ${new URL(url).pathname.slice(1)} set search_path = public, pg_catalog;`);
}

interface Entry {
  readonly id: string;
  readonly outcome: string;
  readonly count: number;
  readonly from: Date;
  readonly until: Date;
  /** `schedule_time` of its run; null: there is none. */
  readonly runTime: string | null;
}

describe(`${SCHEDULES} schedules a minute of ${PROCESSES} service processes that are killed at random`, () => {
  const seed = testSeed(20_261_129);
  const random = new SeededRandom(seed);
  const living: ServiceProcess[] = [];
  const starting = new Set<Promise<unknown>>();
  let database: TestDatabase;

  beforeAll(async () => {
    database = await openTestDatabase();
    await makeClock(database);
    await Promise.all(Array.from({ length: PROCESSES }, start));
  });
  afterAll(async () => {
    await Promise.all(starting);
    await Promise.all(living.map((service) => service.stop()));
    await database.close();
  });

  async function start(): Promise<void> {
    const env = {
      DATABASE_URL: database.url,
      SERVICE_API_KEYS: `admin:${ADMIN_KEY}`,
      SERVICE_DB_POOL_SIZE: '4',
      SERVICE_LOG_LEVEL: 'error',
    };
    living.push(await startService({ env }));
  }

  /** Kills one process or several at a random moment, but not the last one, and starts others in their places. */
  async function kill(): Promise<void> {
    await sleep(random.int(0, LATEST_KILL_MS));
    for (let victims = random.int(1, 3); victims > 0 && living.length > 1; victims -= 1) {
      const [victim] = living.splice(random.int(0, living.length - 1), 1);
      await victim?.kill();
      const replacement = start();
      starting.add(replacement);
      void replacement.then(() => starting.delete(replacement));
    }
  }

  /** How many schedules have a time that is not accounted for; with `taken`, also those that a process has taken. */
  async function waiting(taken = true): Promise<number> {
    const due = taken ? 'next_at' : 'due_at';
    const [row] = await rows<{ n: number }>(
      database.dataSource,
      `select count(*)::integer as n from schedules, clock.shift
        where ${due} <= pg_catalog.clock_timestamp() + ahead`,
    );
    return row?.n ?? assert.fail();
  }

  /** Lets a minute begin. */
  const setClock = (): Promise<void> =>
    database.dataSource.transaction(async (manager) => {
      await manager.query(`update clock.shift set ahead = ahead + interval '1 minute'`);
      await sendNotice(manager, { scheduleInMs: 0 });
    });

  /** Where the times of each schedule begin. */
  async function makeSchedules(): Promise<ReadonlyMap<string, Date>> {
    const first = new Map<string, Date>();
    for (let n = 0; n < SCHEDULES; n += 1) {
      const id = `every-minute-${n}`;
      const send = senderTo(living[n % living.length]?.url ?? assert.fail(), ADMIN_KEY);
      const body = { cron: ['* * * * *'], run: { image: 'image' }, ...RULES[n % RULES.length] };
      const { status, text, body: made } = await send('PUT', `/schedules/${id}`, { body });
      assert.equal(status, 201, text);
      first.set(id, new Date(made.next[0]));
    }
    return first;
  }

  test(`each have exactly one entry for each of their times over ${MINUTES} minutes, and one run for each that says so`, async (t) => {
    const first = await makeSchedules();
    let killed = 0;
    let interrupted = 0;
    // A time in which no process was killed at work would prove little.
    for (let minute = 0; minute < MINUTES || interrupted === 0; minute += 1) {
      assert.ok(minute < 20 * MINUTES, `seed ${seed}: no process was killed while it fired schedules`);
      await setClock();
      const before = living.length;
      if (random.chance(70)) await kill();
      killed += before - living.length;
      await until(async () => (await waiting(false)) === 0, 'a process takes the schedules that are due');
      const latest = Date.now() + FIRING_MS;
      await until(async () => (await waiting()) === 0 || Date.now() > latest, 'they are fired');
      if ((await waiting()) > 0) interrupted += 1;
      await until(() => living.length > 1 || starting.size === 0, 'a process is replaced');
    }
    await until(async () => (await waiting()) === 0, 'others fire what the killed ones had taken');

    const next = await rows<{ id: string; nextAt: Date }>(
      database.dataSource,
      'select id, next_at as "nextAt" from schedules',
    );
    const entries = await rows<Entry>(
      database.dataSource,
      `select f.schedule_id as id, f.outcome, f.count, f.nominal_at as "from", f.until_at as until, r.schedule_time as "runTime"
         from schedule_fires f
         left join runs r on r.id = f.run_id and r.schedule_id = f.schedule_id
        order by f.nominal_at`,
    );
    const [runs] = await rows<{ n: number }>(database.dataSource, 'select count(*)::integer as n from runs');
    const created = entries.filter(({ outcome }) => outcome === 'created');
    await t.annotate(
      `seed ${seed}: ${killed} killed, ${interrupted} of them at work; ${entries.length} entries, ${created.length} runs`,
    );
    const about = `seed ${seed}`;
    assert.equal(next.length, SCHEDULES);
    for (const { id, nextAt } of next) {
      const own = entries.filter((entry) => entry.id === id);
      const expected = minutesOf(first.get(id) ?? assert.fail(), new Date(nextAt.getTime() - MINUTE));
      assert.deepEqual(
        own.flatMap((entry) => minutesOf(entry.from, entry.until)),
        expected,
        `${about}: times of ${id}`,
      );
      for (const entry of own) assert.equal(entry.count, minutesOf(entry.from, entry.until).length, about);
    }
    for (const { id, from, runTime } of created)
      assert.equal(runTime && new Date(runTime).getTime(), from.getTime(), `${about}: the run of ${id}`);
    assert.equal(runs?.n, created.length, `${about}: runs without an entry`);
    assert.equal(
      new Set(created.map(({ id, from }) => `${id} ${from.getTime()}`)).size,
      created.length,
      about,
    );
  });
});

/** Each minute from the one to the other, both included. */
function minutesOf(from: Date, last: Date): number[] {
  const minutes: number[] = [];
  for (let at = from.getTime(); at <= last.getTime(); at += MINUTE) minutes.push(at);
  return minutes;
}
