import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { serverUrl } from '@longshore/embedded-postgres/server-process';
import { endServer } from '../../support/test-cluster.js';
import { AnswerRecord } from '../../support/http/answer-record.js';
import { assertHealth } from '../../support/monitoring/health.js';
import { assertNothingLost, RunLoad } from '../../support/runs/run-load.js';
import { startService, until } from '../../support/service-process.js';
import { SmallDisk } from '../../support/postgres/small-disk.js';
import { senderTo } from '../../support/app/test-app.js';

const DISK_MB = 200;
const FULL_MS = 10_000;
const PATIENCE_MS = 120_000;

/** Makes the server begin a new file of its write-ahead log, until it cannot and ends. */
async function exhaustLog(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  const begun = performance.now();
  try {
    while (performance.now() - begun < PATIENCE_MS) {
      await client.query('select pg_logical_emit_message(false, $1, $1), pg_switch_wal()', ['full']);
    }
  } catch {
    return;
  } finally {
    await client.end().catch(() => undefined);
  }
  assert.fail('the server always found room for its log');
}

const CASES = [
  { name: 'a service whose disk is full', harm: (): Promise<void> => Promise.resolve() },
  {
    name: 'a service whose embedded PostgreSQL ended because its log found no room on the disk',
    harm: exhaustLog,
  },
];

for (const { name, harm } of CASES) {
  describe(name, () => {
    it('answers 503 until there is room again, loses nothing and recovers by itself', async (context) => {
      const disk = await SmallDisk.mount(DISK_MB);
      if (disk === undefined) {
        context.skip('only root may mount the small disk that this test fills');
        return;
      }
      const service = await startService({ dataDir: join(disk.directory, 'data') });
      const ask = senderTo(service.url, service.adminKey);
      const record = new AnswerRecord();
      const load = new RunLoad(service.url, service.adminKey, 16, (send) => record.watch(send));
      try {
        await until(() => load.acknowledged > 200, 'the load has begun');
        const file = await readPostmasterFile(service.cluster);
        assert.ok(file?.socketDirectory !== undefined, 'no database runs');
        const url = serverUrl(file.socketDirectory);
        await disk.fill();
        await harm(url);
        await until(() => record.refusals > 50, 'the disk is too full for the service');
        const full = performance.now();
        while (performance.now() - full < FULL_MS) {
          assert.ok([200, 503].includes((await ask('GET', '/health')).status));
          await sleep(500);
        }
        await disk.free();
        const back = performance.now();
        await until(() => record.hasSuccessAfter(back), 'it works again');
        const goal = load.acknowledged + 200;
        await until(() => load.acknowledged >= goal, 'it goes on working');
        await load.stop();
        const figures = record.figures(back);
        await context.annotate(
          JSON.stringify({ acknowledged: load.acknowledged, unknown: load.unanswered.size, ...figures }),
        );
        await assertNothingLost(load, url);
        await until(async () => (await ask('GET', '/health')).status === 200, 'health is well again');
        assertHealth(await ask('GET', '/health'));
        assert.equal(service.child.exitCode, null, service.output);
        assert.equal(await service.stop(), 0);
      } finally {
        await load.stop().catch(() => undefined);
        await service.kill();
        await endServer(service.cluster);
        await disk.unmount();
      }
    });
  });
}
