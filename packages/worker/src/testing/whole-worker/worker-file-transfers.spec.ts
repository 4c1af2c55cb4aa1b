import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'vitest';
import type { ArtifactSource } from '../../service-api/run-artifacts.js';
import { FileServer } from '../file-server.js';
import { makeHarness } from '../worker-harness.js';

let folder = '';
let store: FileServer;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'worker-transfers-'));
  store = await FileServer.start();
  for (const path of ['/a', '/b']) store.objects.set(path, Buffer.from(path));
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const source = (path: string): ArtifactSource => ({
  get: { url: store.urlOf(path), bytes: null, sha256: null },
  url: null,
  sha256: null,
  isUnpacked: false,
});

describe('a worker', () => {
  it('goes on with its heartbeats, which name the run, while two files move in and out of a slow store', async () => {
    const harness = makeHarness({ filesFolder: folder });
    const { service, clock } = harness;
    service.uploads = (runId, name) => ({
      kind: 'whole',
      request: { method: 'PUT', url: store.urlOf(`/runs/${runId}/${name}`), headers: {} },
    });
    const target = { isRequired: true, isAlways: false };
    const out = { a: { ...target, path: '/out/a' }, b: { ...target, path: '/out/b' } };
    const run = service.add('run-1', {
      artifacts: { in: { '/a': source('/b'), '/b': source('/a') }, out },
    });
    /** The store takes its time for two requests, until ten heartbeats were sent. */
    const whileSlow = async (method: string): Promise<void> => {
      await clock.until(
        `two of ${method}`,
        () => store.requests.filter((one) => one.method === method).length === 2,
        20,
      );
      const before = service.callsOf('heartbeat').length;
      await clock.until('heartbeats', () => service.callsOf('heartbeat').length >= before + 10, 500);
      for (const { report } of service.callsOf('heartbeat').slice(before))
        assert.deepEqual(
          report?.runningOps.map(({ id }) => id),
          ['run-1'],
        );
    };
    let held = new AbortController();
    store.held = once(held.signal, 'abort');
    await harness.start();
    await whileSlow('GET');
    assert.equal(harness.runtime.containers.length, 0);
    held.abort();
    const container = await harness.container();
    for (const path of ['/out/a', '/out/b']) container.files.set(path, Buffer.from(path));
    held = new AbortController();
    store.held = once(held.signal, 'abort');
    container.end(0);
    await whileSlow('PUT');
    assert.equal(run.state, 'RUNNING');
    held.abort();
    await harness.untilState(run, 'COMPLETED');
    await harness.end();
  });

  it('asks for the run again when the URL of a file has expired', async () => {
    store.onRequest = () => (store.requests.length === 1 ? { status: 403 } : undefined);
    const harness = makeHarness({ filesFolder: folder });
    const run = harness.service.add('run-1', { artifacts: { in: { '/a': source('/a') }, out: {} } });
    await harness.start();
    (await harness.container()).end(0);
    await harness.untilState(run, 'COMPLETED');
    await harness.end();
    assert.equal(harness.service.callsOf('getRun').length, 2);
  });
});
