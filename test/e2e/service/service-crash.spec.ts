import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it } from 'vitest';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { processRuns } from '../../support/programs/child-processes.js';
import { serverUrl } from '@longshore/embedded-postgres/server-process';
import { assertHealth } from '../../support/monitoring/health.js';
import { assertNothingLost, RunLoad } from '../../support/runs/run-load.js';
import { makeDataDir, startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';

const ROUNDS = 3;
/** Answers between two crashes, so that each hits a service at work. */
const ANSWERS_A_ROUND = 400;

async function databaseUrlOf({ cluster }: ServiceProcess): Promise<string> {
  const file = await readPostmasterFile(cluster);
  assert.ok(file?.socketDirectory !== undefined, 'no database runs');
  return serverUrl(file.socketDirectory);
}

async function killDatabase(cluster: string): Promise<number> {
  const file = await readPostmasterFile(cluster);
  assert.ok(file !== null, 'no database runs');
  process.kill(file.pid, 'SIGKILL');
  await until(async () => !(await processRuns(file.pid)), 'the database does not die');
  return file.pid;
}

async function moreAnswers(load: RunLoad): Promise<void> {
  const goal = load.acknowledged + ANSWERS_A_ROUND;
  await until(() => load.acknowledged >= goal, `${ANSWERS_A_ROUND} more answers`);
}

describe('a service that is killed', () => {
  it('has everything that it acknowledged to 16 clients, exactly once', async () => {
    const dataDir = await makeDataDir();
    let service = await startService({ dataDir });
    const load = new RunLoad(service.url, service.adminKey);
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        await moreAnswers(load);
        assert.deepEqual(await service.kill(), { code: null, signal: 'SIGKILL' });
        service = await startService({ dataDir });
        load.redirect(service.url);
      }
      await moreAnswers(load);
    } finally {
      await load.stop();
    }
    assert.ok(load.unanswered.size > 0, 'no request was under way when the service was killed');
    await assertNothingLost(load, await databaseUrlOf(service));
    assert.equal(await service.stop(), 0);
  });

  it('starts again over the pid file of a database that was killed as well', async () => {
    const dataDir = await makeDataDir();
    const first = await startService({ dataDir });
    const load = new RunLoad(first.url, first.adminKey);
    await moreAnswers(load);
    await Promise.all([first.kill(), killDatabase(first.cluster)]);
    await load.stop();
    assert.ok(existsSync(`${first.cluster}/postmaster.pid`), 'there is no stale pid file');
    const second = await startService({ dataDir });
    assert.equal(second.adminKey, first.adminKey);
    await assertNothingLost(load, await databaseUrlOf(second));
    assert.equal(await second.stop(), 0);
    assert.equal(await readPostmasterFile(second.cluster), null);
  });
});

describe('a service whose embedded PostgreSQL is killed', () => {
  it('recovers by itself, with everything that it acknowledged to 16 clients', async () => {
    const service = await startService();
    const load = new RunLoad(service.url, service.adminKey);
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        await moreAnswers(load);
        const dead = await killDatabase(service.cluster);
        await until(async () => {
          const file = await readPostmasterFile(service.cluster);
          return file !== null && file.pid !== dead && file.status === 'ready';
        }, 'the database is not started again');
        await moreAnswers(load);
      }
    } finally {
      await load.stop();
    }
    assert.ok(load.unanswered.size > 0, 'no request was under way when the database was killed');
    await assertNothingLost(load, await databaseUrlOf(service));
    assertHealth(await senderTo(service.url)('GET', '/health'));
    assert.equal(await service.stop(), 0);
    assert.equal(await readPostmasterFile(service.cluster), null);
  });
});
