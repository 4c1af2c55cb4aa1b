import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres';
import { cutHistory, differsAt } from '../../support/backup/cut-history.js';
import { InstalledPostgres, installedPrograms } from '../../support/backup/installed-postgres.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { CHAOS_ENV, CHAOS_SETTINGS } from '../../support/history/chaos-deployment.js';
import { brokenPromises } from '../../support/history/broken-promises.js';
import { readFinalState } from '../../support/history/final-state.js';
import { Load } from '../../support/history/load.js';
import { RecordedService } from '../../support/history/recorded-service.js';
import { Wire } from '../../support/history/wire.js';
import { launch, makeDataDir, startService, type ServiceProcess } from '../../support/service-process.js';
import { TcpProxy } from '../../support/postgres/tcp-proxy.js';
import { skipFor } from '../../support/skip.js';

const KEY = 'backup-admin-key-of-the-tests';
const SEED = 11;
const BEFORE_BACKUP_MS = 4_000;
const BETWEEN_BACKUP_AND_LOSS_MS = 1_500;
const RUNS_A_SECOND = 40;
const SECONDS_OF_LOAD = 9;

const programs = await installedPrograms();
const skip =
  programs === undefined ? 'the system has no PostgreSQL with pg_dump (.ci/install-test-tools.sh)' : false;

/** A service over a database. @param workerTimeout seconds */
function serve(url: string, workerTimeout: number = CHAOS_SETTINGS.workerTimeout): Promise<ServiceProcess> {
  return startService({
    env: {
      DATABASE_URL: url,
      SERVICE_API_KEYS: `admin:${KEY}`,
      ...CHAOS_ENV,
      SERVICE_WORKER_TIMEOUT: String(workerTimeout),
      SERVICE_LOG_LEVEL: 'warning',
    },
  });
}

function portOf({ url }: ServiceProcess): { port: number } {
  return { port: Number(new URL(url).port) };
}

describe('a backup that is made under load and restored into a new cluster', skipFor(skip), () => {
  const cleanUp: (() => Promise<unknown>)[] = [];
  let blocks: DocBlocks;

  beforeAll(async () => {
    blocks = await DocBlocks.read('docs/operations.md');
  });
  afterAll(async () => {
    for (const step of cleanUp.toReversed()) await step();
  });

  const shell = async (name: string, env: Readonly<Record<string, string>>, cwd: string): Promise<void> => {
    const path = `${programs}:${process.env['PATH'] ?? ''}`;
    const started = await launch(['bash', '-euc', blocks.one(name)], { cwd, env: { ...env, PATH: path } });
    const { code } = await started.exited;
    assert.equal(code, 0, `${name}: ${started.output}`);
  };

  it('holds all that was acknowledged before, nothing by halves, and goes on with the same workers and readers', async (t) => {
    const lostCluster = await InstalledPostgres.start(programs ?? '');
    cleanUp.push(() => lostCluster.stop());
    const folder = await makeDataDir();
    const lostService = await serve(lostCluster.url);
    const proxy = await TcpProxy.start(SEED);
    cleanUp.push(() => proxy.close());
    const route = await proxy.open(portOf(lostService));
    const wire = new Wire(route.port, KEY);
    const service = new RecordedService([wire]);

    // Load, a backup in its midst, and then the loss.
    const runs = RUNS_A_SECOND * SECONDS_OF_LOAD;
    const options = { seed: SEED, runs, seconds: SECONDS_OF_LOAD, clients: 6, workers: 8 };
    const load = new Load(service, options);
    const { tails } = load;
    await sleep(BEFORE_BACKUP_MS);
    const began = RecordedService.now();
    await shell('backup', { DATABASE_URL: lostCluster.url }, folder);
    const ended = RecordedService.now();
    await sleep(BETWEEN_BACKUP_AND_LOSS_MS);
    await Promise.all(tails.map((tail) => tail.stop()));
    const lost = RecordedService.now();
    await route.lead({ path: '/nowhere' });
    await lostService.kill();

    // A new cluster, of another version of PostgreSQL.
    const cluster = await startEmbeddedPostgres({ dataDir: join(folder, 'new'), log: () => undefined });
    cleanUp.push(() => cluster.stop());
    const restored = new URL(cluster.url);
    restored.pathname = '/restored';
    const env = { NEW_SERVER_URL: cluster.url, NEW_DATABASE_URL: restored.toString() };
    await shell('restore', env, folder);

    // What the backup holds, before anybody goes on: with a timeout that reclaims nothing meanwhile.
    const quiet = await serve(restored.toString(), 600);
    assert.match(quiet.output, /the database was restored/);
    const direct = new RecordedService([new Wire(Number(new URL(quiet.url).port), KEY)]);
    const held = await readFinalState(direct, []);
    const cut = cutHistory(
      service.history.filter(({ endedAt }) => endedAt <= lost),
      { began, ended, lost },
    );
    assert.deepEqual(brokenPromises(cut, held, 'run-not-ended'), []);
    const overview = await direct.ask(0, { method: 'GET', path: '/overview' });
    for (const [state, count] of Object.entries<number>(overview?.body.runs)) {
      assert.equal(count, held.runs.filter((run) => run.state === state).length, state);
    }
    const inExecution = held.runs.filter(({ state }) => state === 'ASSIGNED' || state === 'RUNNING');
    for (const { topic, events: seen } of tails) {
      const feed = held.feeds.get(topic) ?? [];
      assert.equal(
        differsAt(feed, seen),
        -1,
        `the restored feed of ${topic} is not the beginning of what was seen`,
      );
      assert.ok(
        feed.length > 10 && seen.length > feed.length,
        `${feed.length} of ${seen.length} events of ${topic}`,
      );
      const readAfter = (cursor: string | undefined) =>
        direct.answer({ method: 'GET', path: `/feed?topic=${topic}&limit=500&after=${cursor}` });
      // A cursor that the backup reaches goes on; one behind its end names the one that leaves nothing out.
      const middle = feed.length - 10;
      const rest = await readAfter(seen[middle - 1]?.cursor);
      assert.deepEqual(
        rest?.body.events.map(({ cursor }: { cursor: string }) => cursor),
        feed.slice(middle).map(({ cursor }) => cursor),
      );
      const refused = await readAfter(seen.at(-1)?.cursor);
      assert.equal(refused?.status, 410, JSON.stringify(refused));
      const [, named] = /'([\w-]+)'$/.exec(refused.body.detail) ?? [];
      assert.equal(named, feed.at(-1)?.cursor);
      assert.equal((await readAfter(named))?.status, 200);
    }
    assert.equal(await quiet.stop(), 0);

    // The same workers and clients go on, and everything comes to its end.
    const again = await serve(restored.toString());
    await route.lead(portOf(again));
    const final = await load.end(load.follow());
    assert.deepEqual(brokenPromises(cutHistory(service.history, { began, ended, lost }), final), []);
    const reclaimed = new Set(
      final.runs
        .filter(({ timeline }) => timeline.some(({ type }) => type === 'RECLAIMED'))
        .map(({ id }) => id),
    );
    await t.annotate(
      JSON.stringify({
        runsInBackup: held.runs.length,
        runsInTheEnd: final.runs.length,
        inExecution: inExecution.length,
        ofThemReclaimed: inExecution.filter(({ id }) => reclaimed.has(id)).length,
        backupMs: Math.round(ended - began),
      }),
    );
    assert.ok(inExecution.length > 0);
    assert.equal(await again.stop(), 0);
    wire.close();
  });
});
