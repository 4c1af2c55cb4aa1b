import assert from 'node:assert/strict';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { beginRequest, finishRequest, untilNobodyListens } from '../../support/http/half-request.js';
import { ordinaryUser } from '@longshore/worker/testing/ordinary-user';
import {
  launchService,
  makeDataDir,
  startService,
  until,
  type ServiceProcess,
} from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';

function sendTo({ url, adminKey }: ServiceProcess): Send {
  return senderTo(url, adminKey);
}

async function createRun(service: ServiceProcess, marker: string): Promise<string> {
  const { status, body } = await sendTo(service)('POST', '/runs', {
    body: { image: 'kept', inputs: { marker } },
  });
  assert.equal(status, 201);
  return body.id;
}

async function assertStopped(service: ServiceProcess): Promise<void> {
  assert.deepEqual(await service.exited, { code: 0, signal: null }, service.output);
  assert.equal(await readPostmasterFile(service.cluster), null, 'the database still runs');
}

describe('the service on a signal', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`finishes what is in flight on ${signal}, stops its database and exits 0; the next start has its runs and its key`, async () => {
      const dataDir = await makeDataDir();
      const service = await startService({ dataDir });
      const begun = await beginRequest(service);
      service.signal(signal);
      await untilNobodyListens(service);
      const { status, id } = await finishRequest(begun);
      assert.equal(status, 201);
      await assertStopped(service);
      const next = await startService({ dataDir });
      assert.equal((await sendTo(next)('GET', `/runs/${id}`)).status, 200);
      assert.equal(next.adminKey, service.adminKey);
      assert.equal(await next.stop(), 0);
    });
  }

  it('does not mind the signal again and again, to itself and to its process group', async () => {
    const service = await startService();
    const begun = await beginRequest(service);
    service.signal('SIGTERM');
    service.signal('SIGTERM');
    service.signal('SIGINT', 'group');
    await untilNobodyListens(service);
    service.signal('SIGINT', 'group');
    assert.equal((await finishRequest(begun)).status, 201);
    await assertStopped(service);
  });

  it('does not mind it while it stops its database either', async () => {
    const service = await startService();
    const again = setInterval(() => service.signal('SIGINT', 'group'), 20);
    await service.exited;
    clearInterval(again);
    await assertStopped(service);
  });

  it('exits 0 when the signal comes while it is loaded', async () => {
    // Tells when the program begins to listen for signals, long before it is ready.
    const note = `process.on('newListener', (name) => { if (name === 'SIGTERM') process.stderr.write('hears ') })`;
    const preload = `--import data:text/javascript,${encodeURIComponent(note)}`;
    const service = await launchService({ env: { NODE_OPTIONS: preload } });
    await service.untilOutput(/hears/);
    service.signal('SIGTERM');
    assert.deepEqual(await service.exited, { code: 0, signal: null });
    assert.equal(service.output, 'hears ');
  });

  it('exits 0 and leaves nothing running when the signal comes while it makes its database', async () => {
    const dataDir = await makeDataDir();
    const service = await launchService({ dataDir });
    await until(
      async () => (await readdir(dataDir)).some((name) => name.startsWith('postgres')),
      'it makes no database',
    );
    service.signal('SIGINT', 'group');
    assert.equal((await service.exited).code, 0, service.output);
    assert.equal(await readPostmasterFile(join(dataDir, 'postgres')), null);
    const next = await startService({ dataDir });
    assert.equal(await next.stop(), 0);
  });
});

describe('the service as installed', () => {
  it('says where the key is that it makes, and keeps it for itself', async () => {
    const service = await startService();
    const path = join(service.dataDir, 'admin-key');
    assert.ok(service.stdout.includes(path), service.stdout);
    assert.ok(!service.output.includes(service.adminKey), 'the key itself is in the log');
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.equal((await sendTo(service)('GET', '/workers')).status, 200);
    assert.equal((await senderTo(service.url, 'wrong')('GET', '/workers')).status, 401);
    assert.equal(await service.stop(), 0);
  });

  it('runs as an ordinary user', async (context) => {
    const nobody = ordinaryUser();
    if (typeof nobody === 'string') {
      context.skip(nobody);
      return;
    }
    const home = await makeDataDir(nobody);
    const service = await startService({ user: nobody, env: { HOME: home, TMPDIR: home } });
    assert.equal((await stat(service.cluster)).uid, nobody.uid);
    await createRun(service, 'by nobody');
    service.signal('SIGTERM');
    await assertStopped(service);
  });
});
