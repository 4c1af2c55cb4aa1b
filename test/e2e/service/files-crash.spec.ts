import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { ObjectRemovalJob } from '../../../src/files/artifacts/removal/object-removal.job.js';
import { StoreSweepJob } from '../../../src/files/artifacts/removal/store-sweep.job.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { RunRetention } from '../../../src/runs/run-retention.job.js';
import { senderTo, startTestApp, type Send } from '../../support/app/test-app.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { bucketSettings } from '../../support/files/s3-bucket.js';
import { SeededRandom } from '../../support/history/seeded-random.js';
import { freePort } from '../../support/programs/free-port.js';
import { launch, makeDataDir, startService, until, type TestProcess } from '../../support/service-process.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { ScriptImages } from '../../support/workers/worker-process.js';

const RUNS = atDepth({ fast: 6, all: 20, soak: 200 });
const ADMIN_KEY = 'files-crash-admin-key-of-the-tests';
const PART_BYTES = 5 * 2 ** 20;
const DAY_MS = 86_400_000;

/** Longest time between two kills. */
const PAUSE_MS = 1_500;

/** Of the files that go in; the last one goes out in parts, where the store takes these. */
const SIZES = [0, 1, 300_000, PART_BYTES + 1];

/** What a run leaves: what it got with a line behind it, one more, and one that may be missing. */
const PROGRAM = `cd "$SERVICE_FILES_ROOT"
{ cat data/in; echo "$NTH"; } >out/copy
printf %s "$NTH" >"out/plots/$NTH.txt"
sleep 0.2`;

const OUT = {
  copy: { path: '/out/copy' },
  plots: { path: '/out/plots/*.txt', required: true },
  none: { path: '/out/none', required: false },
};

/** Starts a bucket on a port. */
const bucketScript = (folder: string, port: number): string => {
  const path = JSON.stringify(createRequire(import.meta.url).resolve('@20minutes/s3rver'));
  const options = {
    address: '127.0.0.1',
    port,
    silent: true,
    directory: folder,
    configureBuckets: [{ name: 'files' }],
  };
  return `new (require(${path}))(${JSON.stringify(options)}).run().then(() => console.log('ready'))`;
};

type Name = 'worker' | 'service' | 'store';

for (const kind of ['a folder', 'a bucket'] as const) {
  describe(`${RUNS} runs with files in ${kind}, whose processes are killed at random`, () => {
    const seed = testSeed(20_261_130);
    const random = new SeededRandom(seed);
    const living = new Map<Name, TestProcess>();
    let database: TestDatabase;
    let folder: string;
    let env: Record<string, string>;
    let start: Readonly<Record<Name, () => Promise<TestProcess>>>;
    let send: Send;

    beforeAll(async () => {
      database = await openTestDatabase();
      folder = await makeDataDir();
      const [port, bucketPort] = [await freePort(), await freePort()];
      env = {
        SERVICE_API_KEYS: `admin:${ADMIN_KEY}`,
        SERVICE_WORKER_TIMEOUT: '5',
        SERVICE_MAX_RECLAIMS: '1000',
        SERVICE_RUN_RETENTION_DAYS: '1',
        SERVICE_FILE_PART_BYTES: String(PART_BYTES),
        ...(kind === 'a folder' ? { SERVICE_FILES_URL: `file:${folder}` } : bucketSettings(bucketPort)),
      };
      const ofService = {
        DATABASE_URL: database.url,
        SERVICE_PORT: String(port),
        SERVICE_LOG_LEVEL: 'error',
      };
      const images = await ScriptImages.make();
      await images.add('copy', PROGRAM);
      // The next process of the worker finds what the last one has left.
      const state = await makeDataDir();
      const url = `http://127.0.0.1:${port}`;
      start = {
        service: () => startService({ env: { ...env, ...ofService } }),
        worker: () =>
          images.startWorker({
            url,
            key: ADMIN_KEY,
            id: 'crash',
            env: { SERVICE_WORKER_STATE_DIR: state, TMPDIR: state, SERVICE_WORKER_MAX_RUNS: '4' },
          }),
        store: async () => {
          const script = bucketScript(folder, bucketPort);
          const store = await launch([process.execPath, '-e', script]);
          await store.untilOutput(/ready/);
          return store;
        },
      };
      send = senderTo(url, ADMIN_KEY);
      const names: readonly Name[] =
        kind === 'a folder' ? ['service', 'worker'] : ['store', 'service', 'worker'];
      for (const name of names) living.set(name, await start[name]());
    });
    afterAll(async () => {
      for (const process of living.values()) process.signal('SIGKILL', 'group');
      await Promise.all([...living.values()].map((process) => process.exited));
      await database.close();
    });

    async function kill(name: Name): Promise<void> {
      const process = living.get(name) ?? assert.fail();
      process.signal('SIGKILL');
      await process.exited;
      living.set(name, await start[name]());
    }

    const upload = async (content: Buffer<ArrayBuffer>): Promise<string> => {
      const body = { name: 'in', bytes: content.length };
      const { body: made, text } = await send('POST', '/files', { body });
      assert.ok(made.upload, text);
      const pieces = made.upload.parts ?? [{ ...made.upload, bytes: content.length }];
      const etags: string[] = [];
      let at = 0;
      for (const { url, headers, bytes } of pieces) {
        const answer = await fetch(url, {
          method: 'PUT',
          headers,
          body: content.subarray(at, (at += bytes)),
        });
        assert.ok(answer.ok, await answer.text());
        etags.push(answer.headers.get('etag') ?? '');
      }
      if (made.upload.parts) await send('POST', `/files/${made.id}/complete`, { body: { etags } });
      assert.equal((await send('GET', `/files/${made.id}`)).body.state, 'stored');
      return made.id;
    };

    const countOpen = async (): Promise<number> => {
      const [row] = await database.dataSource.query(
        `select count(*)::integer as n from runs where finished_at is null`,
      );
      return row.n;
    };

    test('that are COMPLETED have all that they must leave, with its checksum, and nothing is left when they are removed', async (t) => {
      const contents = SIZES.map((size) => randomBytes(size));
      const files = [];
      for (const content of contents) files.push(await upload(content));
      const runs: { id: string; nth: number }[] = [];
      for (let nth = 0; nth < RUNS; nth += 1) {
        const file = files[nth % files.length];
        const body = {
          image: 'copy',
          env: { NTH: String(nth) },
          artifacts: { in: { '/data/in': { file } }, out: OUT },
          retry_policy: { max_attempts: 50, backoff_s: 0 },
        };
        const created = await send('POST', '/runs', { body });
        assert.equal(created.status, 201, created.text);
        runs.push({ id: created.body.id, nth });
      }
      const killed: Record<Name, number> = { worker: 0, service: 0, store: 0 };
      for (;;) {
        const open = await countOpen();
        if (open === 0) break;
        await sleep(random.int(0, PAUSE_MS));
        const name = random.pick([...living.keys()]) ?? assert.fail();
        await kill(name);
        killed[name] += 1;
        // What is killed all the time gets nowhere.
        await until(async () => (await countOpen()) < open, `a run ends, of ${open}, seed ${seed}`);
      }
      await t.annotate(`seed ${seed}: killed ${JSON.stringify(killed)}`);

      let attempts = 0;
      for (const { id, nth } of runs) {
        const { body: run } = await send('GET', `/runs/${id}`);
        assert.equal(run.state, 'COMPLETED', JSON.stringify(run.execution_summary));
        attempts += run.current_attempt;
        const { body: left } = await send('GET', `/runs/${id}/artifacts`);
        const input = contents[nth % contents.length] ?? assert.fail();
        const expected = new Map([
          ['copy', Buffer.concat([input, Buffer.from(`${nth}\n`)])],
          [`plots/${nth}.txt`, Buffer.from(`${nth}`)],
        ]);
        assert.deepEqual(
          left.map(({ name }: { name: string }) => name),
          [...expected.keys()],
          id,
        );
        for (const [name, content] of expected) {
          const artifact = left.find((one: { name: string }) => one.name === name);
          assert.deepEqual(
            [artifact.state, artifact.bytes, artifact.sha256],
            ['stored', content.length, hash('sha256', content)],
            `${id} ${name}`,
          );
          const { body } = await send('GET', `/runs/${id}/artifacts/${name}?redirect=false`);
          const fetched = Buffer.from(await (await fetch(body.url)).arrayBuffer());
          assert.equal(hash('sha256', fetched), artifact.sha256, `${id} ${name}`);
        }
      }
      await t.annotate(`${attempts} attempts of ${RUNS} runs`);

      for (const name of ['worker', 'service'] as const) {
        living.get(name)?.signal('SIGKILL');
        await living.get(name)?.exited;
      }
      await database.dataSource.query(
        `update runs set created_at = created_at - interval '2 days', finished_at = finished_at - interval '2 days'`,
      );
      const app = await startTestApp({ env, database });
      try {
        const [now, later] = [new Date(), new Date(Date.now() + 9 * DAY_MS)];
        const retention = app.app.get(RunRetention, { strict: false });
        await retention.runOnce(now);
        await app.app.get(ObjectRemovalJob, { strict: false }).runOnce(now);
        await retention.runOnce(now);
        for (const table of ['runs', 'artifacts', 'object_cleanups', 'file_uses']) {
          const [row] = await database.dataSource.query(`select count(*)::integer as n from ${table}`);
          assert.equal(row.n, 0, table);
        }
        await app.app.get(StoreSweepJob, { strict: false }).runOnce(later);
        const store = app.app.get(Stores, { strict: false }).required();
        assert.deepEqual(await store.list('runs/', { limit: 10 }), []);
        if (kind === 'a folder') {
          const there = await readdir(folder, { recursive: true, withFileTypes: true });
          const ofRuns = there.map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1));
          assert.deepEqual(
            ofRuns.filter((path) => /^(?:\.sums\/)?runs\/./.test(path)),
            [],
          );
        }
      } finally {
        await app.close();
      }
    });
  });
}
