import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'vitest';
import { MAY_BE_MISSING } from '@longshore/worker/runtime/docker/container/container-output';
import { atDepth, testSeed } from '../../support/depth.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { SeededRandom } from '../../support/history/seeded-random.js';
import { ContainerStarts } from '../../support/images/container-starts.js';
import { startTestEngine, type TestEngine } from '../../support/images/docker-engine.js';
import { startDockerWorker } from '../../support/images/docker-runtime.js';
import { startService, until, type TestProcess } from '../../support/service-process.js';
import { TcpProxy, type ProxyRoute } from '../../support/postgres/tcp-proxy.js';
import { skipFor } from '../../support/skip.js';
import { ChaosProxy } from '../../support/workers/chaos-proxy.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const RUNS = atDepth({ fast: 30, all: 30, soak: 300 });
const IMAGES = 5;

/** How long faults come, in milliseconds; each kind comes at least once. */
const FAULTS_MS = atDepth({ fast: 0, all: 0, soak: 3_600_000 });
const SILENCE_MS = atDepth({ fast: 10_000, all: 10_000, soak: 30_000 });
const PAUSE_MS = atDepth({ fast: 3_000, all: 3_000, soak: 20_000 });
const LINES = 20;

const ADMIN = 'e2e-admin-key-of-the-tests';
const WORKER = 'e2e-worker-key-of-the-tests';

/** Copies its inputs to its outputs, waits for space where the disk is full, and ends as its inputs say. */
const PROGRAM = `
i=0; while [ $i -lt ${LINES} ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done
until cat "$SERVICE_INPUT_PATH" >"$SERVICE_OUTPUT_PATH"; do sleep 0.5; done
if grep -q '"fails": *true' "$SERVICE_INPUT_PATH"; then exit 7; fi`;

const forTests = await startTestEngine({ diskMb: 300 });

test(
  'a worker among faults executes each attempt once, and fails no run for another reason than its own',
  { ...skipFor(forTests.skip), timeout: FAULTS_MS * 4 + 1_200_000 },
  async () => {
    const seed = testSeed(20261126);
    const random = SeededRandom.for(seed, 'worker');
    const { engine } = forTests;
    const starts = new ContainerStarts(engine.docker);
    const service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${ADMIN},worker:${WORKER}`,
        SERVICE_WORKER_TIMEOUT: '30',
        SERVICE_REAPER_INTERVAL: '1',
      },
    });
    const proxy = await ChaosProxy.start(service.url, SeededRandom.for(seed, 'network'), {
      percent: 20,
      silenceMs: SILENCE_MS,
    });
    const engineProxy = await TcpProxy.start(seed);
    const engineRoute = await engineProxy.open({ path: engine.host.replace('unix://', '') });
    const worker = await startDockerWorker(`tcp://127.0.0.1:${engineRoute.port}`, {
      url: proxy.url,
      key: WORKER,
      id: 'chaos',
      env: { SERVICE_WORKER_MAX_RUNS: '4', SERVICE_WORKER_CPU: '8' },
    });
    try {
      const send = senderTo(service.url, ADMIN);
      const images: string[] = [];
      for (let n = 0; n < IMAGES; n += 1) images.push(await engine.publishScript(`chaos-${n}`, PROGRAM));
      const runs = await createRuns(send, images, random);
      await showFaults({ engine, engineRoute, random, images, worker });
      proxy.percent = 0;
      await untilEnded(send, worker);
      for (const [id, inputs] of runs) await checkRun(send, starts, id, inputs);
      await until(async () => (await engine.containerIds()).length === 0, 'no container is left');
      worker.signal('SIGTERM');
      assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.output);
    } finally {
      console.log(`seed ${seed}, answers of the proxy:`, Object.fromEntries(proxy.met));
      const file = join(tmpdir(), `longshore-chaos-${seed}.log`);
      writeFileSync(file, worker.output);
      console.log(`output of the worker: ${file}`);
      await starts.close();
      await engineProxy.close();
      proxy.close();
    }
  },
);

interface Inputs {
  readonly number: number;
  readonly fails: boolean;
  readonly text: string;
}

/** @returns the inputs of each run by its id */
async function createRuns(
  send: Send,
  images: readonly string[],
  random: SeededRandom,
): Promise<ReadonlyMap<string, Inputs>> {
  const runs = new Map<string, Inputs>();
  for (let number = 0; number < RUNS; number += 1) {
    // Some are large: a slow link needs seconds for them.
    const text = 'x'.repeat(random.chance(20) ? 100_000 : 10);
    const inputs = { number, fails: random.chance(10), text };
    const { status, body } = await send('POST', '/runs', { body: { image: random.pick(images), inputs } });
    assert.equal(status, 201);
    runs.set(body.id, inputs);
  }
  return runs;
}

interface Scene {
  readonly engine: TestEngine;
  readonly engineRoute: ProxyRoute;
  readonly random: SeededRandom;
  readonly images: readonly string[];
  readonly worker: TestProcess;
}

/** Shows each kind of fault in turn. */
async function showFaults({ engine, engineRoute, random, images, worker }: Scene): Promise<void> {
  const end = performance.now() + FAULTS_MS;
  const kinds: readonly (() => Promise<void>)[] = [
    async () => void (await engineRoute.cut()),
    async () => {
      await engine.stopRegistry();
      await engine.removeImage(random.pick(images) ?? '').catch(() => undefined);
      await sleep(SILENCE_MS);
      await engine.startRegistry();
    },
    () => engine.restartEngine('SIGTERM'),
    async () => {
      await engine.disk?.fill();
      await sleep(SILENCE_MS);
      await engine.disk?.free();
    },
    async () => {
      await engineRoute.misbehave({ blackhole: true });
      await sleep(SILENCE_MS);
      await engineRoute.misbehave({});
    },
    () => engine.restartEngine('SIGKILL'),
  ];
  for (let n = 0; n < kinds.length || performance.now() < end; n += 1) {
    await kinds[n % kinds.length]?.();
    assert.equal(worker.child.exitCode, null, worker.output);
    await sleep(random.int(PAUSE_MS / 2, PAUSE_MS * 2));
  }
}

async function untilEnded(send: Send, worker: TestProcess): Promise<void> {
  for (;;) {
    const open = await Promise.all(
      ['PENDING', 'ASSIGNED', 'RUNNING'].map((state) => send('GET', `/runs?limit=1&state=${state}`)),
    );
    if (open.every(({ body }) => body.data.length === 0)) return;
    assert.equal(worker.child.exitCode, null, worker.output);
    await sleep(500);
  }
}

async function checkRun(send: Send, starts: ContainerStarts, id: string, inputs: Inputs): Promise<void> {
  const { body: run } = await send('GET', `/runs/${id}`);
  const story = JSON.stringify({ ...run, inputs: inputs.number, outputs: undefined });
  if (inputs.fails) {
    const { cause, exit_code: code } = run.execution_summary;
    assert.deepEqual([run.state, cause, code], ['FAILED', 'exit', 7], story);
  } else {
    assert.equal(run.state, 'COMPLETED', story);
    assert.deepEqual(run.outputs, inputs, story);
  }
  const last: number = run.current_attempt;
  for (const [key, containers] of starts.byAttempt) {
    const [of = '', attempt] = key.split('/');
    if (of !== id) continue;
    assert.equal(containers.size, 1, `attempt ${attempt} was executed ${containers.size} times: ${story}`);
    assert.ok(Number(attempt) <= last, story);
  }
  assert.ok(starts.byAttempt.has(`${id}/${last}`), story);
  const { text, headers } = await send('GET', `/runs/${id}/logs`);
  const lines: { readonly text?: string }[] = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  // An entry without a text says how many lines the service has refused.
  if (
    headers.get('X-Log-Complete') !== 'true' ||
    lines.some(({ text: line }) => line === undefined || line.startsWith(MAY_BE_MISSING))
  )
    return;
  assert.deepEqual(
    lines.flatMap(({ text: line }) => (line?.startsWith('line ') ? [line] : [])),
    Array.from({ length: LINES }, (_, n) => `line ${n}`),
    story,
  );
}
