import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { fetchAddresses } from '../../../packages/worker/src/artifacts/download.js';
import { FileCache } from '../../../packages/worker/src/artifacts/file-cache.js';
import { LocalExecutor } from '../../../packages/worker/src/local/local-executor.js';
import { SYSTEM_CLOCK } from '../../../packages/worker/src/process/clock.js';
import { HttpServiceApi } from '../../../packages/worker/src/service-api/http-service-api.js';
import { loadWorkerSettings } from '../../../packages/worker/src/settings/worker-settings.js';
import { FakeRuntime, type FakeContainer } from '../../../packages/worker/src/testing/fake-runtime.js';
import { Worker } from '../../../packages/worker/src/worker.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';

const ADMIN = 'e2e-admin-key-of-the-tests';
const MOST = 50;
const RUNS = 60;

/** Workers as they are, with containers that the test ends, and an autoscaler that only starts some. */
class Pool {
  /** Those that execute a run. */
  readonly executing = new Set<FakeContainer>();
  /** Containers that were started. */
  started = 0;
  /** Workers that have not ended. */
  live = 0;
  most = 0;
  readonly exitCodes: number[] = [];

  constructor(
    private readonly url: string,
    private readonly send: Send,
  ) {}

  /** Starts the workers that are missing. @returns how many are wanted */
  async scale(): Promise<number> {
    const { body } = await this.send('GET', `/capacity/wanted?selector=pool&cpu=1&max=${MOST}`);
    while (this.live < body.wanted) void this.#start(`pool-${this.exitCodes.length + this.live}`);
    return body.wanted;
  }

  async #start(workerId: string): Promise<void> {
    this.live += 1;
    this.most = Math.max(this.most, this.live);
    const settings = loadWorkerSettings([], {
      SERVICE_API_KEY: ADMIN,
      SERVICE_WORKER_TAGS: 'pool',
      SERVICE_WORKER_TICK: '0.2',
      SERVICE_WORKER_EXIT_IDLE: '2',
    });
    const runtime = new FakeRuntime();
    runtime.onStart = (container) => {
      this.started += 1;
      this.executing.add(container);
    };
    const noGpus = { isInstalled: false, gpus: [], problem: null };
    const resources = { cpuCores: 1, ramMb: 1000, gpus: [] };
    const worker = new Worker({
      settings,
      workerId,
      api: new HttpServiceApi({ baseUrl: this.url, apiKey: ADMIN, maxBytes: settings.maxAnswerBytes }),
      createExecutor: (host) =>
        new LocalExecutor(host, {
          runtime,
          resources,
          readGpus: () => Promise.resolve(noGpus),
          gpuIds: [],
          needsRamLimit: false,
          files: { cache: new FileCache(join(tmpdir(), 'unused'), 0), addresses: fetchAddresses(null) },
          maxRuns: 1,
          isSuccessor: false,
        }),
      clock: SYSTEM_CLOCK,
      logger: pino({ level: 'silent' }),
      random: Math.random,
      tracing: null,
    });
    const exitCode = await worker.run();
    this.exitCodes.push(exitCode);
    this.live -= 1;
  }
}

for (const strategy of ['direct', 'fit']) {
  describe(`a pool that is scaled by GET /capacity/wanted and SERVICE_WORKER_EXIT_IDLE, with ${strategy}`, () => {
    let service: ServiceProcess;
    let send: Send;

    beforeAll(async () => {
      service = await startService({
        env: { SERVICE_API_KEYS: `admin:${ADMIN}`, SERVICE_SCHEDULER: strategy },
      });
      send = senderTo(service.url, ADMIN);
    });
    afterAll(async () => {
      assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
    });

    test(`grows from 0 to ${MOST} workers and shrinks to 0 again, and interrupts no run`, async () => {
      const pool = new Pool(service.url, send);
      assert.equal(await pool.scale(), 0);
      const run = { image: 'image', selector: ['pool'], constraints: { cpu: 1 } };
      for (let n = 0; n < RUNS; n += 20) {
        await send('POST', '/runs/batch', { body: { runs: Array.from({ length: 20 }, () => run) } });
      }
      await until(
        async () => (await pool.scale()) === MOST && pool.executing.size === MOST,
        'all workers execute',
      );
      // One run after the other ends, while the autoscaler goes on.
      await until(async () => {
        await pool.scale();
        for (const container of [...pool.executing].slice(0, 5)) {
          pool.executing.delete(container);
          container.end(0);
        }
        return pool.started === RUNS && pool.executing.size === 0;
      }, 'all runs end');
      await until(async () => (await pool.scale()) === 0 && pool.live === 0, 'all workers end');
      assert.equal(pool.most, MOST);
      assert.ok(pool.exitCodes.every((code) => code === 0));
      const { body } = await send('GET', '/runs?limit=100');
      const ends = body.data.map((one: { state: string; current_attempt: number }) => [
        one.state,
        one.current_attempt,
      ]);
      assert.deepEqual(
        ends,
        Array.from({ length: RUNS }, () => ['COMPLETED', 1]),
      );
      assert.deepEqual((await send('GET', '/workers')).body, []);
    });
  });
}
