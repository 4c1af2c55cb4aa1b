import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { beginRequest, finishRequest, untilNobodyListens } from '../../support/http/half-request.js';
import {
  linesWith,
  readyPids,
  startCluster,
  untilGone,
  untilReady,
} from '../../support/programs/server-processes.js';
import { launchService, makeDataDir, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';

async function assertStopped(service: ServiceProcess): Promise<void> {
  assert.deepEqual(await service.exited, { code: 0, signal: null }, service.output);
  await untilGone(readyPids(service));
  assert.equal(await readPostmasterFile(service.cluster), null, 'the database still runs');
  assert.equal(linesWith(service, 'stopped').length, 3);
}

describe('a service of two server processes on a signal', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`finishes the requests of both on ${signal}, ends what waits, stops its database and exits 0`, async () => {
      const service = await startCluster();
      // One after the other: each process gets some.
      const begun = [];
      for (let n = 0; n < 4; n += 1) begun.push(await beginRequest(service));
      const poll = senderTo(service.url, service.adminKey)('GET', '/feed?topic=quiet&wait=30');
      await new Promise((resolve) => setTimeout(resolve, 100));
      service.signal(signal);
      await untilNobodyListens(service);
      const page = await poll;
      assert.equal(page.status, 200, page.text);
      for (const request of begun) assert.equal((await finishRequest(request)).status, 201);
      await assertStopped(service);
    });
  }

  it('does not mind it again and again, to itself, to its processes and to its process group', async () => {
    const service = await startCluster();
    const begun = await beginRequest(service);
    service.signal('SIGTERM');
    service.signal('SIGINT', 'group');
    service.signal('SIGINT', 'group');
    await untilNobodyListens(service);
    service.signal('SIGTERM', 'group');
    assert.equal((await finishRequest(begun)).status, 201);
    const again = setInterval(() => service.signal('SIGINT', 'group'), 20);
    await service.exited;
    clearInterval(again);
    await assertStopped(service);
  });

  it('exits 0 and leaves nothing running when the signal comes while its processes start', async () => {
    const dataDir = await makeDataDir();
    const service = await launchService({ dataDir, args: ['--workers', '2'] });
    await service.untilOutput(/migrated the database/);
    service.signal('SIGINT', 'group');
    assert.equal((await service.exited).code, 0, service.output);
    assert.equal(service.stderr, '');
    assert.equal(await readPostmasterFile(join(dataDir, 'postgres')), null);
    assert.ok(!(await readdir(join(dataDir, 'postgres'))).includes('postmaster.pid'));
  });

  it('replaces a process that is stopped alone, whose requests are answered before', async () => {
    const service = await startCluster();
    const [stopped = 0] = readyPids(service);
    const begun = [];
    for (let n = 0; n < 4; n += 1) begun.push(await beginRequest(service));
    process.kill(stopped, 'SIGTERM');
    await until(
      () => linesWith(service, 'stopping').some(({ pid }) => pid === stopped),
      'the process does not stop',
    );
    for (const request of begun) assert.equal((await finishRequest(request)).status, 201);
    await untilReady(service, 3);
    const [line] = linesWith(service, 'a server process was stopped; it is replaced');
    assert.deepEqual([line?.['serverProcess'], line?.['code']], [stopped, 0]);
    assert.equal((await senderTo(service.url)('GET', '/health')).status, 200);
    assert.equal(await service.stop(), 0);
  });

  it('answers the requests under way when its primary is killed, and ends', async () => {
    const service = await startCluster();
    const begun = [];
    for (let n = 0; n < 4; n += 1) begun.push(await beginRequest(service));
    const pids = readyPids(service);
    process.kill(service.pid, 'SIGKILL');
    await untilNobodyListens(service);
    for (const request of begun) assert.equal((await finishRequest(request)).status, 201);
    await untilGone(pids);
  });
});
