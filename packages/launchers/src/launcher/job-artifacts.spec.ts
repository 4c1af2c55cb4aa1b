import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { fetchAddresses } from '@longshore/worker/artifacts/download';
import { FileCache } from '@longshore/worker/artifacts/file-cache';
import { endedFiles } from '@longshore/worker/runtime/process/attempt-files';
import { whenAborted } from '@longshore/worker/process/clock';
import { EngineFault } from '@longshore/worker/runtime/runtime';
import type { FakeRun } from '@longshore/worker/testing/fake-run';
import { errorMessage, eventTypes } from '@longshore/worker/testing/fake-service';
import { FileServer, sha256 } from '@longshore/worker/testing/file-server';
import { LauncherHarness } from '../testing/launcher-harness.js';
import type { JobSpec } from './engine.js';

const QUERY = 'signature=0123456789abcdef0123456789abcdef0123456789abcdef';

describe('a launcher whose jobs share a folder with it', () => {
  let harness: LauncherHarness;
  let store: FileServer;
  let folder: string;
  let run: FakeRun;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'job-artifacts-'));
    mkdirSync(join(folder, 'left', 'out'), { recursive: true });
    store = await FileServer.start();
    store.objects.set('/csv', Buffer.from('a,b\n'));
    harness = new LauncherHarness();
    harness.cluster.files = {
      from: { cache: new FileCache(join(folder, 'cache'), 1e9), addresses: fetchAddresses(null) },
      ended: () => endedFiles(folder, ['left']),
    };
    harness.service.uploads = (_, name) => ({
      kind: 'whole',
      request: { method: 'PUT', url: store.urlOf(`/stored/${name}`), headers: {} },
    });
    run = harness.service.add('run-1', {
      artifacts: {
        in: { '/data/in.csv': source('/csv') },
        out: { model: { path: '/out/model', isRequired: true, isAlways: true } },
      },
    });
  });
  afterEach(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function source(path: string, digest?: string) {
    const content = store.objects.get(path) ?? Buffer.alloc(0);
    const get = { url: store.urlOf(path), bytes: content.length, sha256: digest ?? sha256(content) };
    return { get, url: null, sha256: null, isUnpacked: false };
  }

  const leave = (content: string): void => writeFileSync(join(folder, 'left', 'out', 'model'), content);
  /** Without what depends on the time that a real store takes. */
  const log = (): string[] =>
    harness.service.logs
      .texts('run-1')
      .filter((line) => !/^\[worker\] (?:fetching|storing) /.test(line))
      .map((line) => line.replace(/ in \d+\.\d s$/, ''));

  it('fetches files before it submits, and reports what a job has left once that is stored', async () => {
    run.mustStartInTime = true;
    const given: JobSpec['artifacts'][] = [];
    const contents: string[] = [];
    harness.cluster.onSubmit = (spec) => void given.push(spec.artifacts);
    harness.cluster.onSubmitted = async ({ artifacts }) => {
      for (const one of artifacts?.fetched ?? [])
        for await (const entry of one.entries())
          if (entry.kind === 'file') contents.push(await text(entry.content));
    };
    const launcher = await harness.start();
    await harness.untilRunning(run);
    assert.deepEqual(
      given.map((one) => [one?.fetched.map(({ path, kind }) => [path, kind]), one?.folders]),
      [[[['/data/in.csv', 'file']], ['/out']]],
    );
    assert.deepEqual(contents, ['a,b\n']);
    leave('weights');
    harness.cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    assert.deepEqual(eventTypes(run), ['PREPARING', 'SUBMITTED', 'STARTED', 'COMPLETED']);
    const artifact = { name: 'model', path: '/out/model', bytes: 7, sha256: sha256('weights') };
    assert.deepEqual(run.timeline.at(-1)?.payload?.['artifacts'], [
      { ...artifact, content_type: 'application/octet-stream' },
    ]);
    assert.equal(store.objects.get('/stored/model')?.toString(), 'weights');
    await harness.untilEmpty();
    await harness.end(launcher);
    assert.deepEqual(log(), [
      '[worker] fetched /data/in.csv: 4 bytes',
      '[worker] stored model (/out/model): 7 bytes',
      '<end>',
    ]);
  });

  it('submits nothing when a file is not what it must be, or while its store is away', async () => {
    run.artifacts = { in: { '/data/in.csv': source('/csv', 'f'.repeat(64)) }, out: {} };
    const away = harness.service.add('run-2', { artifacts: { in: { '/a': source('/away') }, out: {} } });
    store.onRequest = ({ url }) => (url.startsWith('/away') ? { status: 503 } : undefined);
    const launcher = await harness.start();
    await harness.untilState(run, 'FAILED');
    await harness.untilState(away, 'FAILED');
    assert.match(errorMessage(run), /file for '\/data\/in\.csv' cannot be fetched: its checksum is/);
    assert.match(errorMessage(away), /file for '\/a' could not be fetched: its store answers HTTP 503/);
    const causes = [run, away].map(({ timeline }) => timeline.at(-1)?.payload?.['cause']);
    assert.deepEqual(causes, ['error', 'infrastructure']);
    assert.equal(store.requests.filter(({ url }) => url.startsWith('/away')).length, 5);
    assert.deepEqual(harness.cluster.submitted, []);
    await harness.end(launcher);
  });

  for (const [what, end, cause] of [
    ['a success', () => harness.cluster.exit('run-1'), 'error'],
    ['a failure', () => harness.cluster.exit('run-1', 3), 'exit'],
    [
      'a job that the engine has ended',
      () => harness.cluster.set('run-1', { kind: 'failed', cause: 'oom', message: 'too much' }),
      'oom',
    ],
  ] as const)
    it(`stores after ${what} what is given always, and says what is missing`, async () => {
      const artifacts = run.artifacts ?? { in: {}, out: {} };
      const kept = { path: '/out/kept', isRequired: false, isAlways: true };
      run.artifacts = { ...artifacts, out: { ...artifacts.out, kept } };
      const launcher = await harness.start();
      await harness.untilRunning(run);
      writeFileSync(join(folder, 'left', 'out', 'kept'), 'kept');
      end();
      await harness.untilState(run, 'FAILED');
      const { payload } = run.timeline.at(-1) ?? {};
      assert.equal(payload?.['cause'], cause);
      assert.equal(store.objects.get('/stored/kept')?.toString(), 'kept');
      assert.equal(JSON.stringify(payload?.['artifacts']).match(/"name"/g)?.length, 1);
      const lacking = "The run has not left '/out/model' (model)";
      await harness.untilEmpty();
      await harness.end(launcher);
      if (cause === 'error') assert.equal(errorMessage(run), lacking);
      else assert.ok(log().includes(`[worker] ${lacking}`), log().join('\n'));
    });

  it('gives an engine nothing more of files whose run is cancelled meanwhile, which is no fault of the engine', async () => {
    const cancelled = new AbortController();
    harness.cluster.onSubmitted = async ({ runId, artifacts }) => {
      if (runId !== 'run-1') return;
      await whenAborted(cancelled.signal);
      for (const one of artifacts?.fetched ?? [])
        for await (const entry of one.entries())
          if (entry.kind === 'file')
            await text(entry.content).catch((error: unknown) => {
              throw new EngineFault('the file was not written', { cause: error });
            });
      assert.fail('the files are given');
    };
    const launcher = await harness.start();
    await harness.untilSubmitted('run-1');
    run.state = 'CANCELLED';
    await harness.clock.pass(10_000);
    cancelled.abort();
    await harness.untilEmpty();
    harness.service.add('run-2');
    await harness.untilSubmitted('run-2');
    assert.deepEqual(harness.cluster.submitted, ['run-1/1', 'run-2/1']);
    harness.cluster.exit('run-2');
    await harness.untilEmpty();
    await harness.end(launcher);
  });

  it('fails a run as infrastructure whose files the store does not take, and removes its job', async () => {
    store.onRequest = ({ method }) => (method === 'PUT' ? { status: 500 } : undefined);
    const launcher = await harness.start();
    await harness.untilRunning(run);
    leave('weights');
    harness.cluster.exit('run-1');
    await harness.untilState(run, 'FAILED');
    assert.equal(run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
    assert.equal(store.requests.filter(({ method }) => method === 'PUT').length, 5);
    await harness.untilEmpty();
    await harness.end(launcher);
  });

  it('stores again what a process has stored that was killed before its report, whose log loses no line', async () => {
    run.inputs = { url: `http://127.0.0.1/a?${QUERY}` };
    const killed = await harness.start();
    await harness.untilRunning(run);
    harness.cluster.print('run-1', 'one', 'two');
    await harness.clock.until('the lines are stored', () => log().includes('two'), 20);
    // The store takes the file, and the launcher does not live to hear of it.
    store.onRequest = ({ method }) => {
      if (method === 'PUT') killed.kill();
      return undefined;
    };
    leave('weights');
    harness.cluster.exit('run-1');
    await harness.clock.until('the file is stored', () => store.objects.has('/stored/model'), 20);
    store.onRequest = () => undefined;
    harness.cluster.print('run-1', `three ?${QUERY}`, 'four');
    const launcher = await harness.start();
    await harness.untilState(run, 'COMPLETED');
    await harness.untilEmpty();
    await harness.end(launcher);
    assert.equal(harness.cluster.submitted.length, 1);
    const [fetched, ...lines] = log();
    assert.equal(fetched, '[worker] fetched /data/in.csv: 4 bytes');
    assert.deepEqual(lines.slice(0, 3), ['one', 'two', lines[2]]);
    assert.ok(lines[2]?.startsWith('three ') && !lines[2].includes(QUERY), lines[2]);
    assert.equal(lines[3], 'four');
    assert.match(JSON.stringify(run.timeline.at(-1)?.payload?.['artifacts']), /"name":"model"/);
  });
});
