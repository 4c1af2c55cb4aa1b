import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pino } from 'pino';
import { pack } from 'tar-stream';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { fetchAddresses } from '../../artifacts/download.js';
import { FileCache } from '../../artifacts/file-cache.js';
import { LocalExecutor } from '../../local/local-executor.js';
import { SYSTEM_CLOCK } from '../../process/clock.js';
import { ProcessRuntime } from '../../runtime/process/process.runtime.js';
import { RunFolders } from '../../runtime/process/run-folders.js';
import type { ArtifactSource, ArtifactTarget } from '../../service-api/run-artifacts.js';
import { loadWorkerSettings } from '../../settings/worker-settings.js';
import { Worker } from '../../worker.js';
import { MemoryLog } from '../container-spec.js';
import type { FakeRun } from '../fake-run.js';
import { errorMessage, eventTypes, FakeService, PLAIN } from '../fake-service.js';
import { FileServer, sha256 } from '../file-server.js';
import { makeHarness, startedRun } from '../worker-harness.js';

const CSV = 'a,b\n1,2\n';

let folder = '';
let store: FileServer;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'worker-files-'));
  store = await FileServer.start();
  store.objects.set('/csv', Buffer.from(CSV));
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

function source(path: string, more: Partial<ArtifactSource> = {}): ArtifactSource {
  const content = store.objects.get(path) ?? Buffer.alloc(0);
  const get = { url: store.urlOf(path), bytes: content.length, sha256: sha256(content) };
  return { get, url: null, sha256: null, isUnpacked: false, ...more };
}

function target(path: string, more: Partial<ArtifactTarget> = {}): ArtifactTarget {
  return { path, isRequired: true, isAlways: false, ...more };
}

/** The service signs uploads to the store, below the run. */
function withStore(service: FakeService): void {
  service.uploads = (runId, name) => ({
    kind: 'whole',
    request: { method: 'PUT', url: store.urlOf(`/runs/${runId}/${name}`), headers: {} },
  });
}

const stored = (name: string): string | undefined => store.objects.get(`/runs/run-1/${name}`)?.toString();

/** A worker with the runtime process executes a run of the script to its end. */
async function execute(
  script: string,
  fields: Partial<FakeRun>,
): Promise<{ readonly run: FakeRun; readonly log: string[] }> {
  const images = join(folder, 'images');
  mkdirSync(join(images, 'job'), { recursive: true });
  writeFileSync(join(images, 'job', 'program'), `#!/bin/sh\nset -eu\n${script}\n`);
  chmodSync(join(images, 'job', 'program'), 0o755);
  const service = new FakeService(SYSTEM_CLOCK);
  withStore(service);
  const run = service.add('run-1', { image: 'job', ...fields });
  const settings = loadWorkerSettings([], {
    SERVICE_API_KEY: 'key',
    SERVICE_WORKER_TICK: '0.05',
    SERVICE_WORKER_MAX_TOTAL: '1',
  });
  const folders = new RunFolders('w', folder);
  const runtime = new ProcessRuntime({ imagesDir: images, folders, log: new MemoryLog(), env: process.env });
  const files = { cache: new FileCache(join(folder, 'files'), 0), addresses: fetchAddresses(null) };
  const worker = new Worker({
    settings,
    workerId: 'w',
    api: service,
    createExecutor: (host) =>
      new LocalExecutor(host, {
        runtime,
        resources: { cpuCores: 1, ramMb: 100, gpus: [] },
        readGpus: async () => ({ isInstalled: false, gpus: [], problem: null }),
        gpuIds: null,
        needsRamLimit: false,
        maxRuns: 1,
        isSuccessor: false,
        files,
      }),
    clock: SYSTEM_CLOCK,
    logger: pino({ level: 'silent' }),
    random: () => 0,
    tracing: null,
  });
  assert.equal(await worker.run(), 0);
  assert.deepEqual(
    readdirSync(folders.root).filter((name) => name !== '.notes'),
    [],
    'the folder goes with the attempt',
  );
  return { run, log: service.logs.texts('run-1') };
}

const lastPayload = (run: FakeRun) => run.timeline.at(-1)?.payload ?? {};

describe('a process', () => {
  it('finds the files of its run below SERVICE_FILES_ROOT, and what it leaves there is stored and reported', async () => {
    const archive = pack();
    archive.entry({ name: './src/run.sh', mode: 0o755 }, '#!/bin/sh\necho from-archive');
    archive.finalize();
    store.objects.set('/tar', await buffer(archive));
    const script = `
      cat "$SERVICE_FILES_ROOT/data/train.csv"; "$SERVICE_FILES_ROOT/app/src/run.sh"
      if echo x 2>/dev/null >"$SERVICE_FILES_ROOT/data/train.csv" && [ "$(id -u)" != 0 ]; then exit 1; fi
      cd "$SERVICE_FILES_ROOT/out"; echo model >model.txt; mkdir plots/deep; echo p >plots/deep/a.png; echo q >plots/b.svg
      ln -s b.svg plots/link.png; echo '{"ok": 1}' >"$SERVICE_OUTPUT_PATH"`;
    const { run, log } = await execute(script, {
      artifacts: {
        in: { '/data/train.csv': source('/csv'), '/app': source('/tar', { isUnpacked: true }) },
        out: { model: target('/out/model.txt'), plots: target('/out/plots/**/*.png', { isRequired: false }) },
      },
    });
    assert.deepEqual(eventTypes(run), ['STARTED', 'COMPLETED'], errorMessage(run));
    const { outputs, artifacts } = lastPayload(run);
    assert.deepEqual({ ...Object(outputs) }, { ok: 1 });
    assert.deepEqual(artifacts, [
      {
        name: 'model',
        path: '/out/model.txt',
        bytes: 6,
        content_type: 'text/plain',
        sha256: sha256('model\n'),
      },
      {
        name: 'plots/deep/a.png',
        path: '/out/plots/deep/a.png',
        bytes: 2,
        content_type: 'image/png',
        sha256: sha256('p\n'),
      },
    ]);
    assert.deepEqual([stored('model'), stored('plots/deep/a.png')], ['model\n', 'p\n']);
    for (const line of [
      /^\[worker\] fetched \/data\/train.csv: 8 bytes in \d+\.\d s$/,
      /^1,2$/,
      /^from-archive$/,
      /^\[worker\] stored model \(\/out\/model.txt\): 6 bytes in \d+\.\d s$/,
    ])
      assert.ok(
        log.some((text) => line.test(text)),
        `${line} in ${log.join('\n')}`,
      );
    assert.ok(!log.join().includes('signature'));
  });

  it('is not started when a file cannot be fetched: FAILED without STARTED names path and reason', async () => {
    const { run, log } = await execute('exit 0', {
      artifacts: { in: { '/data/a': source('/csv', { sha256: 'e'.repeat(64) }) }, out: {} },
    });
    assert.deepEqual(eventTypes(run), ['FAILED']);
    assert.equal(lastPayload(run)['cause'], 'error');
    assert.match(errorMessage(run), /^The file for '\/data\/a' cannot be fetched: its checksum is /);
    assert.ok(log.some((text) => text.startsWith("[worker] The file for '/data/a'")));
  });

  it('fails with the path of what it has not left, and keeps its own cause when it fails itself', async () => {
    const out = { model: target('/out/model'), log: target('/out/log', { isAlways: true }) };
    const without = await execute('echo l >"$SERVICE_FILES_ROOT/out/log"', { artifacts: { in: {}, out } });
    assert.deepEqual(eventTypes(without.run), ['STARTED', 'FAILED']);
    assert.equal(lastPayload(without.run)['cause'], 'error');
    assert.equal(errorMessage(without.run), "The run has not left '/out/model' (model)");
    assert.equal(Object(lastPayload(without.run)['artifacts'])[0].name, 'log');
    store.objects.clear();
    const failing = await execute(
      'echo l >"$SERVICE_FILES_ROOT/out/log"; echo m >"$SERVICE_FILES_ROOT/out/model"; exit 3',
      {
        artifacts: { in: {}, out },
      },
    );
    const { cause, exit_code: exitCode, artifacts } = lastPayload(failing.run);
    assert.deepEqual([cause, exitCode, Object(artifacts).length], ['exit', 3, 1]);
    assert.deepEqual([stored('log'), stored('model')], ['l\n', undefined]);
  });

  it('without artifacts has no such folder', async () => {
    const { run, log } = await execute('echo "root:${SERVICE_FILES_ROOT-unset}"; ls', {});
    assert.equal(run.state, 'COMPLETED');
    assert.ok(log.includes('root:unset') && !log.includes('files'), log.join());
    assert.equal(existsSync(join(folder, 'files')), false);
  });
});

describe('a worker', () => {
  it('tells the service that it prepares while it fetches files', async () => {
    const harness = makeHarness({ filesFolder: join(folder, 'files') });
    const run = harness.service.add('run-1', {
      mustStartInTime: true,
      artifacts: { in: { '/a': source('/csv') }, out: {} },
    });
    await harness.start();
    const container = await harness.container();
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    await harness.end();
    assert.deepEqual(eventTypes(run), ['PREPARING', 'STARTED', 'COMPLETED']);
    assert.equal(run.timeline[0]?.msg, 'Fetching the files of the run');
    const [place] = container.spec.artifacts?.fetched ?? [];
    assert.deepEqual([place?.path, place?.kind], ['/a', 'file']);
  });

  it('starts the attempt elsewhere when the store is away', async () => {
    store.onRequest = () => ({ status: 500 });
    const harness = makeHarness({ filesFolder: join(folder, 'files') });
    const run = await harness.execute('FAILED', { artifacts: { in: { '/a': source('/csv') }, out: {} } });
    assert.equal(run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
    assert.equal(harness.runtime.containers.length, 0);
  });

  it('shows nothing of the queries of signed URLs in logs, events and messages, and leaves them in outputs', async () => {
    const url = 'https://bucket.example/runs/1/model?X-Amz-Date=1&X-Amz-Signature=0123456789abcdef';
    const { harness, service, run, container } = await startedRun(
      {},
      { inputs: { from: url }, outputs: { to: store.urlOf('/x') } },
    );
    assert.deepEqual(container.spec.signedQueries, [url.split('?')[1], store.urlOf('/x').split('?')[1]]);
    container.print(`get ${url}`, `put ${JSON.stringify({ to: store.urlOf('/x') })}`);
    container.print(JSON.stringify({ type: 'NOTE', msg: `at ${url}` }));
    container.writeOutputs(JSON.stringify({ model: url }));
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    await harness.end();
    assert.equal(service.logs.texts('run-1')[0], 'get https://bucket.example/runs/1/model?***');
    assert.ok(!service.logs.texts('run-1').join().includes('signature='));
    assert.equal(
      run.timeline.find(({ type }) => type === 'NOTE')?.msg,
      'at https://bucket.example/runs/1/model?***',
    );
    assert.deepEqual({ ...Object(run.timeline.at(-1)?.payload?.['outputs']) }, { model: url });
    assert.equal(run.timeline.at(-1)?.payload?.['outputs_changed'], undefined);
  });

  it('keeps outputs that are too large as the artifact outputs.json, without values of secrets', async () => {
    const harness = makeHarness();
    const { service } = harness;
    withStore(service);
    service.maxBodyBytes = 1000;
    service.secrets = { env: { TOKEN: 'correct-horse' }, files: {}, registry: null };
    const run = service.add('run-1', { container: { ...PLAIN, secrets: { TOKEN: 'token' } } });
    await harness.start();
    const container = await harness.container();
    container.writeOutputs(JSON.stringify({ rows: 'x'.repeat(2000), token: 'correct-horse' }, null, 2));
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    await harness.end();
    const { outputs, artifacts } = lastPayload(run);
    assert.deepEqual({ ...Object(outputs) }, { $artifact: 'outputs.json' });
    assert.equal(stored('outputs.json'), JSON.stringify({ rows: 'x'.repeat(2000), token: '***' }));
    assert.equal(Object(artifacts)[0].sha256, sha256(stored('outputs.json') ?? ''));
    assert.ok(service.logs.texts('run-1').some((text) => text.includes('kept as the artifact outputs.json')));
  });

  it('fails a run with outputs that are too large, with the reason, where the service has no store', async () => {
    const harness = makeHarness();
    harness.service.maxBodyBytes = 1000;
    const run = harness.service.add('run-1');
    await harness.start();
    const container = await harness.container();
    container.writeOutputs(JSON.stringify({ rows: 'x'.repeat(2000) }));
    container.end(0);
    await harness.untilState(run, 'FAILED');
    await harness.end();
    assert.match(errorMessage(run), /the service takes at most \d+ bytes/);
  });

  it('stores what a run leaves whose container an earlier process of it has started', async () => {
    const harness = makeHarness({ isSuccessor: true });
    const { service, runtime } = harness;
    withStore(service);
    const artifacts = { in: { '/a': source('/csv', { get: null }) }, out: { model: target('/out/model') } };
    const run = service.add('run-1', { state: 'RUNNING', workerId: 'rack/7:a', artifacts });
    const started = await startedRun({}, {});
    const left = runtime.leave({
      ...started.container.spec,
      runId: 'run-1',
      signedQueries: ['expires=1&signature=secret-one'],
    });
    await started.harness.end();
    left.files.set('/out/model', Buffer.from('weights'));
    left.print('at http://service/x?expires=1&signature=secret-one');
    await harness.start();
    left.end(0);
    await harness.untilState(run, 'COMPLETED');
    await harness.end();
    assert.equal(stored('model'), 'weights');
    assert.equal(Object(lastPayload(run)['artifacts'])[0].name, 'model');
    assert.deepEqual(runtime.adoptions[0]?.folders, ['/out']);
    assert.equal(service.logs.texts('run-1')[0], 'at http://service/x?***');
  });
});
