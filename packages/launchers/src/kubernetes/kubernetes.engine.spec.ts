import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'vitest';
import type { EngineJob } from '../launcher/engine.js';
import { MemoryLog } from '@longshore/worker/testing/container-spec';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import { secretManifests } from './manifest/secrets.js';
import { KubernetesEngine, type KubernetesOptions } from './kubernetes.engine.js';
import { SETTINGS } from '../testing/job-context.js';
import { jobSpec } from '../testing/job-spec.js';
import { ScriptedApi, status } from '../testing/scripted-api.js';
import { formatLine, type TransferLine } from '@longshore/worker/transfer/messages';
import { NO_VOLUMES, parseVolumes } from '@longshore/worker/settings/volumes';
import { parseOutputs } from '@longshore/worker/runtime/outputs';

const JOBS = '/apis/batch/v1/namespaces/runs/jobs';
const SECRETS = '/api/v1/namespaces/runs/secrets';
const PODS = '/api/v1/namespaces/runs/pods';
const LOG = `GET ${PODS}/p1/log`;
const LABELS = { 'longshore.run': 'r1', 'longshore.attempt': '1' };
const JOB = {
  metadata: {
    name: 'run-r1-1',
    uid: 'u1',
    labels: LABELS,
    annotations: { 'longshore.worker': 'w1', 'longshore.pod': 'pod-1' },
  },
};
const NEVER = new AbortController().signal;

function pod(run: object, outputs: object = {}): object {
  return {
    metadata: { name: 'p1', uid: 'pod-1', labels: LABELS, ownerReferences: [{ uid: 'u1' }] },
    status: {
      phase: 'Pending',
      initContainerStatuses: [{ name: 'run', image: 'img', state: run }],
      containerStatuses: [{ name: 'outputs', image: 'helper', state: outputs }],
    },
  };
}

const statusOf = (name: string, state: object) => ({ name, image: 'img', state });

const RUNNING = pod({ running: {} });
const DONE = pod({ terminated: { exitCode: 0 } }, { terminated: { exitCode: 0 } });
const EVENT = (object: object) => `${JSON.stringify({ type: 'MODIFIED', object })}\n`;

const line = (second: number, text: string) => `2026-11-23T22:00:0${second}.000000001Z ${text}\n`;

describe('the Kubernetes engine', () => {
  const scripted = ScriptedApi.forEachTest();
  const folder = mkdtempSync(join(tmpdir(), 'longshore-kubeconfig-'));
  let file: string;
  let engine: KubernetesEngine;
  let change: (object: object) => void;

  beforeEach(() => {
    const { server } = scripted.api;
    file = join(folder, 'config');
    writeFileSync(
      file,
      JSON.stringify({
        clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
        users: [{ name: 'u', user: { token: 't' } }],
        contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
        'current-context': 'x',
      }),
    );
    scripted.on('GET /api/v1/namespaces/runs', { body: {} });
    scripted.on('POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      body: { status: { allowed: true } },
    });
    scripted.on('GET /api/v1/nodes', { body: { items: [] } });
    scripted.on('GET /api/v1/pods', { body: { items: [] } });
    engine = make();
  });

  afterEach(async () => {
    await engine.close();
    rmSync(join(folder, 'config'));
  });

  function make(more: Partial<KubernetesOptions> = {}): KubernetesEngine {
    return new KubernetesEngine({
      settings: SETTINGS,
      volumes: NO_VOLUMES,
      workerId: 'w1',
      deployment: 'prod',
      log: new MemoryLog(),
      env: { KUBECONFIG: file },
      oldEngine: 'warn',
      ...more,
    });
  }

  /** Opens the engine while the cluster has the job with this pod. */
  async function open(first: object): Promise<EngineJob> {
    const list = (path: string, item: object) =>
      scripted.on(`GET ${path}`, (response, { query }) => {
        if (query['watch'] !== 'true') {
          response.end(JSON.stringify({ metadata: { resourceVersion: '1' }, items: [item] }));
          return;
        }
        response.writeHead(200).flushHeaders();
        if (path === PODS) change = (object) => response.write(EVENT(object));
      });
    list(PODS, first);
    list(JOBS, JOB);
    await engine.open();
    const [job] = engine.list();
    assert.ok(job);
    return job;
  }

  async function untilStatus(kind: string): Promise<EngineJob> {
    let job = await engine.nextStatus({ runId: 'r1', attempt: 1 }, null, NEVER);
    while (job !== null && job.status.kind !== kind) job = await engine.nextStatus(job, job.status, NEVER);
    assert.ok(job);
    return job;
  }

  async function textsOf(job: EngineJob): Promise<string[]> {
    const texts: string[] = [];
    for await (const { text } of engine.readLines(job, NEVER)) texts.push(text);
    return texts;
  }

  it('adopts the jobs that the cluster has, and follows their changes', async () => {
    assert.deepEqual(await open(RUNNING), {
      runId: 'r1',
      attempt: 1,
      workerId: 'w1',
      engineId: 'u1',
      status: { kind: 'running' },
    });
    change(DONE);
    const { status: ended } = await untilStatus('exited');
    assert.deepEqual(ended, { kind: 'exited', exitCode: 0, outOfMemory: false });
  });

  it('gives what a job was submitted with, as long as the cluster has its Secret', async () => {
    const job = await open(RUNNING);
    const spec = jobSpec({ secrets: { TOKEN: 'value' }, inputs: { url: 'https://s/a?signature=b' } });
    const found = { body: { items: secretManifests(spec, LABELS) } };
    const gone = { body: { items: [] } };
    scripted.on(`GET ${SECRETS}`, found, found, gone, gone, status(500, '', 'x'));
    assert.deepEqual(await engine.readSecrets(job), { TOKEN: 'value' });
    assert.deepEqual(await engine.readMemo(job), { signedQueries: ['signature=b'], notes: [] });
    assert.deepEqual([await engine.readSecrets(job), await engine.readMemo(job)], [null, null]);
    await assert.rejects(engine.readSecrets(job), { name: 'EngineFault' });
  });

  it('reads the log through broken connections to the end of the container', async () => {
    scripted.on(
      LOG,
      (response, { query }) => {
        assert.equal(query['follow'], 'true');
        response.write(`${line(1, 'a')}${line(2, 'b')}${line(2, 'cut').slice(0, -2)}`);
        setImmediate(() => response.destroy());
      },
      status(502, '', 'the node does not answer'),
      (response, { query }) => {
        assert.deepEqual(query, {
          container: 'run',
          follow: 'true',
          timestamps: 'true',
          sinceTime: '2026-11-23T22:00:02Z',
        });
        response.end(`${line(2, 'b')}${line(2, 'cut')}`);
        change(DONE);
      },
      (response, { query }) => response.end(query['follow'] === 'false' ? line(3, 'last') : ''),
    );
    assert.deepEqual(await textsOf(await open(RUNNING)), ['a', 'b', 'cut', 'last']);
  });

  it('waits with the log until the container runs, and ends without one when it never does', async () => {
    const job = await open(pod({ waiting: { reason: 'PodInitializing' } }));
    const reading = textsOf(job);
    change(pod({ waiting: { reason: 'InvalidImageName', message: 'bad' } }));
    assert.deepEqual(await reading, []);
    assert.equal(scripted.routes().includes(LOG), false);
  });

  it('ends the log when the pod is gone with it', async () => {
    scripted.on(LOG, status(404, 'NotFound', 'pods "p1" not found'));
    assert.deepEqual(await textsOf(await open(DONE)), []);
  });

  it('reads the outputs again while the log is not complete or does not come', async () => {
    const bytes = Buffer.from('{"a":1}');
    const frame = `longshore-outputs ${bytes.length}\n${bytes.toString('base64')}\nlongshore-end\n`;
    scripted.on(
      LOG,
      (response) => response.end(frame.slice(0, 30)),
      status(500, '', 'away'),
      (response) => void response.destroy(),
      (response) => response.end(frame),
    );
    assert.deepEqual(parseOutputs(await engine.readOutputs(await open(DONE), NEVER))?.outputs, { a: 1 });
    assert.equal(scripted.calls.at(-1)?.query['container'], 'outputs');
  });

  it('ends the log and reads the outputs although connections stay open and give nothing', async () => {
    const clock = new FakeClock();
    engine = make({ clock });
    const frame = `longshore-outputs 2\n${Buffer.from('{}').toString('base64')}\nlongshore-end\n`;
    let outputsTries = 0;
    scripted.on(LOG, (response, { query }) => {
      if (query['container'] === 'outputs') {
        outputsTries += 1;
        if (outputsTries > 1) response.end(frame);
        else response.write(frame.slice(0, 30));
      } else if (query['follow'] === 'false') {
        response.end(`${line(1, 'a')}${line(2, 'last')}`);
      } else {
        response.write(line(1, 'a'));
        change(DONE);
      }
    });
    const job = await open(RUNNING);
    const reading = Promise.all([textsOf(job), engine.readOutputs(job, NEVER)]);
    let isDone = false;
    void reading.then(() => (isDone = true));
    await clock.until('both are read', () => isDone, 100);
    const [texts, outputs] = await reading;
    assert.deepEqual([texts, parseOutputs(outputs)?.outputs], [['a', 'last'], {}]);
  });

  it('tells when the cluster has lost the outputs', async () => {
    const job = await open(DONE);
    scripted.on(LOG, status(404, 'NotFound', 'gone'));
    await assert.rejects(engine.readOutputs(job, NEVER), { name: 'EngineFault' });
  });

  it('is a fault of the engine when the API server is unavailable at the start or later', async () => {
    scripted.on('GET /api/v1/namespaces/runs', status(503, '', 'starting'));
    await assert.rejects(engine.open(), {
      name: 'EngineFault',
      message: /^Kubernetes could not be used at http.*: starting$/,
    });
    assert.throws(() => engine.list(), { name: 'EngineFault' });
  });

  it('announces its volumes, which it looks for when it opens', async () => {
    const volumes = parseVolumes('data=pvc:first:ro') ?? NO_VOLUMES;
    const claim = 'GET /api/v1/namespaces/runs/persistentvolumeclaims/first';
    scripted.on(claim, status(404, 'NotFound', 'not found'));
    const offering = make({ volumes });
    assert.deepEqual(offering.capabilities.slice(-2), ['shm', 'volume:data']);
    await assert.rejects(offering.open(), {
      name: 'SettingsError',
      message: /the claim 'first' of the volume 'data'/,
    });
  });

  it('gives the files of a run to what stores them, whose lines for people are in the log before and after its own', async () => {
    assert.ok(make({ settings: { ...SETTINGS, filesImage: 'worker:1' } }).capabilities.includes('artifacts'));
    assert.ok(!engine.capabilities.includes('artifacts'));
    const ended = { terminated: { exitCode: 0 } };
    const withFiles = (outputs: object): object => ({
      ...pod({}),
      spec: {
        initContainers: [{ name: 'files' }],
        containers: [{ name: 'run' }, { name: 'outputs' }],
      },
      status: {
        phase: 'Running',
        initContainerStatuses: [statusOf('files', ended)],
        containerStatuses: [statusOf('run', ended), statusOf('outputs', outputs)],
      },
    });
    const logs: Record<string, readonly TransferLine[]> = {
      files: [{ kind: 'note', text: 'fetched' }],
      outputs: [
        { kind: 'note', text: 'stored' },
        { kind: 'end', missing: ['x'] },
      ],
    };
    scripted.on(LOG, (response, { query: { container = '' } }) => {
      const said = logs[container]?.map((one) => formatLine(one)) ?? ['of the program'];
      response.end(said.map((text, index) => line(index, text)).join(''));
    });
    scripted.on(`GET ${SECRETS}`, { body: { items: [{}] } });
    const answer = `PATCH ${SECRETS}/run-r1-1-files`;
    scripted.on(answer, { body: {} });
    const job = await open(withFiles({ running: {} }));
    assert.deepEqual(job.status, { kind: 'running', hasEnded: true });
    const stored = engine.storeFiles(job, async () => ({}), NEVER);
    assert.deepEqual(await stored, { stored: [], missing: ['x'] });
    assert.ok(scripted.routes().includes(answer));
    change(withFiles(ended));
    await untilStatus('exited');
    assert.deepEqual(await textsOf(job), ['[worker] fetched', 'of the program', '[worker] stored']);
  });

  it('ends an attempt whose node cannot mount a volume, as the events of its pod say', async () => {
    const clock = new FakeClock();
    engine = make({ clock });
    const events = 'GET /api/v1/namespaces/runs/events';
    const message = 'unmounted volumes=[longshore-mount-0-results], unattached volumes=[]: timed out';
    const items = ['other', 'pod-1'].map((uid) => ({ involvedObject: { uid }, message }));
    scripted.on(events, { body: { items: [{ involvedObject: { uid: 'pod-1' } }] } }, { body: { items } });
    const volumes = [{ name: 'longshore-mount-0-results', persistentVolumeClaim: { claimName: 'team' } }];
    await open({ ...pod({ waiting: { reason: 'PodInitializing' } }), spec: { containers: [], volumes } });
    const asked = () => scripted.calls.filter(({ route }) => route === events);
    await clock.until('the job has failed', () => engine.list()[0]?.status.kind === 'failed', 1000);
    assert.deepEqual(
      asked().map(({ query }) => query['fieldSelector']),
      Array.from({ length: 2 }, () => 'involvedObject.kind=Pod,reason=FailedMount'),
    );
  });

  it('ends with one line when there is no cluster', async () => {
    const none = new KubernetesEngine({
      settings: SETTINGS,
      volumes: NO_VOLUMES,
      workerId: 'w1',
      deployment: 'prod',
      oldEngine: 'warn',
      log: new MemoryLog(),
      env: { KUBECONFIG: join(folder, 'none') },
    });
    await assert.rejects(none.open(), {
      name: 'SettingsError',
      message: /^The configuration .* cannot be read: ENOENT[^\n]*$/,
    });
  });
});
