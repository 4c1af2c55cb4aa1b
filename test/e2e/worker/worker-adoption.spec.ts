import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { MAY_BE_MISSING } from '@longshore/worker/runtime/docker/container/container-output';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { SeededRandom } from '../../support/history/seeded-random.js';
import { ContainerStarts } from '../../support/images/container-starts.js';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { startDockerWorker } from '../../support/images/docker-runtime.js';
import { readWhole } from '../../support/runs/run-log.js';
import {
  makeDataDir,
  startService,
  until,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const ADMIN = 'e2e-admin-key-of-the-tests';
const WORKER = 'e2e-worker-key-of-the-tests';

/** Waits for a signal, then prints so many numbered lines of a kilobyte at once. */
const FLOODS = `
trap 'go=1' USR1; echo begin; while [ -z "$go" ]; do sleep 0.1; done
awk -v n=$LINES 'BEGIN { pad = sprintf("%1000s", ""); for (i = 1; i <= n; i++) print i, pad }'`;

/** Prints on both streams for a while, each line with its number, then tells what it has seen. */
const COUNTS = `
i=0; while [ $i -lt $STEPS ]; do i=$((i+1))
  echo "out $i"; echo "err $i" >&2
  if [ $((i % 10)) = 0 ]; then echo '{"type":"NOTE","msg":"'$i'"}'; fi
  sleep 0.02
done
printf '{"steps": %s}' $i >"$SERVICE_OUTPUT_PATH"; exit $CODE`;

/** Whether a line, as the tests read it, tells that others are missing. */
const isMark = (line: string | undefined): boolean =>
  line === '[gap]' || line?.startsWith(MAY_BE_MISSING) === true;

const forTests = await startTestEngine();

/* oxlint-disable typescript/no-explicit-any -- a run as it comes */

describe('a worker that is killed and started again', skipFor(forTests.skip), () => {
  const seed = testSeed(7);
  const random = SeededRandom.for(seed, 'kills');
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;
  let folder: string;
  let starts: ContainerStarts;
  let counts: string;
  let floods: string;

  const startWorker = async (more: Readonly<Record<string, string>> = {}): Promise<void> => {
    const env = { SERVICE_WORKER_CPU: '64', ...more };
    const options = { url: service.url, key: WORKER, id: 'w-1', env };
    worker = await startDockerWorker(forTests.engine.host, options, folder);
  };

  const kill = async (): Promise<void> => {
    worker.signal('SIGKILL');
    await worker.exited;
  };

  beforeAll(async () => {
    folder = await makeDataDir();
    service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${ADMIN},worker:${WORKER}`,
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
        SERVICE_WORKER_TIMEOUT: '30',
        SERVICE_LOG_LIMIT_BYTES: String(2 ** 30),
      },
    });
    send = senderTo(service.url, ADMIN);
    counts = await forTests.engine.publishScript('counts', COUNTS);
    floods = await forTests.engine.publishScript('floods', FLOODS);
    starts = new ContainerStarts(forTests.engine.docker);
    await startWorker();
  });

  afterAll(async () => {
    worker.signal('SIGTERM');
    await worker.exited;
    await starts.close();
    await service.kill('SIGTERM');
  });

  afterEach(async () => {
    await until(async () => (await forTests.engine.containerIds()).length === 0, 'no container is left');
    for (const [attempt, ids] of starts.byAttempt) assert.equal(ids.size, 1, `starts of ${attempt}`);
  });

  const create = async (image: string, body: Record<string, unknown> = {}): Promise<string> => {
    const created = await send('POST', '/runs', { body: { image, ...body } });
    assert.equal(created.status, 201, created.text);
    return created.body.id;
  };
  const put = async (value: string): Promise<void> => {
    const { status, text } = await send('PUT', '/secrets/token', { body: { kind: 'opaque', value } });
    assert.ok(status < 300, text);
  };
  const get = async (id: string): Promise<any> => (await send('GET', `/runs/${id}`)).body;
  const untilState = async (id: string, ...states: string[]): Promise<any> => {
    await until(async () => states.includes((await get(id)).state), `run ${id} is ${states.join(' or ')}`);
    return get(id);
  };
  const printed = async (id: string): Promise<string[]> => {
    const complete = async (): Promise<boolean> =>
      (await send('GET', `/runs/${id}/logs?tail=1`)).headers.get('X-Log-Complete') === 'true';
    await until(complete, 'the log is complete');
    return (await readWhole(send, id)).map(({ text, gap }) => (gap === undefined ? (text ?? '') : '[gap]'));
  };
  const untilPrinted = (id: string, line: string): Promise<void> =>
    until(async () => (await send('GET', `/runs/${id}/logs`)).text.includes(line), `${line} is in the log`);

  test(`at any moment, has started each container once and lost nothing of what they printed (seed ${seed})`, async () => {
    const runs = await Promise.all(
      Array.from({ length: atDepth({ fast: 3, all: 8, soak: 20 }) }, async (_, n) => {
        const steps = random.int(100, atDepth({ fast: 200, all: 600, soak: 3000 }));
        const code = n % 3 === 2 ? 7 : 0;
        return {
          steps,
          code,
          id: await create(counts, { env: { STEPS: String(steps), CODE: String(code) } }),
        };
      }),
    );
    for (let kills = atDepth({ fast: 3, all: 10, soak: 50 }); kills > 0; kills--) {
      await sleep(random.int(0, 2_500));
      await kill();
      await startWorker();
    }
    for (const { id, steps, code } of runs) {
      const run = await untilState(id, 'COMPLETED', 'FAILED');
      const { events } = run;
      assert.equal(run.state, code === 0 ? 'COMPLETED' : 'FAILED', JSON.stringify(events));
      if (code === 0) assert.deepEqual(run.outputs, { steps });
      else assert.equal(events.at(-1).payload.exit_code, code);
      const numbers = Array.from({ length: steps }, (_, i) => i + 1);
      const lines = await printed(id);
      assert.deepEqual(
        lines.filter((line) => line.startsWith('out')),
        numbers.map((i) => `out ${i}`),
      );
      assert.deepEqual(
        lines.filter((line) => line.startsWith('err')),
        numbers.map((i) => `err ${i}`),
      );
      assert.equal(lines.includes('[gap]'), false);
      const notes = events.filter(({ type }: { type: string }) => type === 'NOTE');
      assert.deepEqual(
        notes.map(({ msg }: { msg: string }) => Number(msg)),
        numbers.filter((i) => i % 10 === 0),
      );
    }
  });

  test('reports the end that came while it was away, with the times and outputs of the program', async () => {
    const id = await create(counts, { env: { STEPS: '60', CODE: '0' } });
    await untilPrinted(id, 'out 1');
    await kill();
    const [container = ''] = await forTests.engine.containerIds();
    const state = async (): Promise<any> =>
      (await forTests.engine.docker.getContainer(container).inspect()).State;
    await until(async () => !(await state()).Running, 'the container has ended');
    const { FinishedAt } = await state();
    await startWorker();
    const run = await untilState(id, 'COMPLETED', 'FAILED');
    assert.deepEqual([run.state, run.outputs, run.current_attempt], ['COMPLETED', { steps: 60 }, 1]);
    const { finished_at: reported } = run.events.at(-1).payload;
    assert.equal(Date.parse(reported), Date.parse(FinishedAt));
  });

  /** Starts the container's output while no worker is there. @returns the lines of the whole log, without what fills them */
  const flood = async (count: number, isOver: boolean): Promise<string[]> => {
    const id = await create(floods, { env: { LINES: String(count) } });
    await untilPrinted(id, 'begin');
    await kill();
    const [container = ''] = await forTests.engine.containerIds();
    const state = async (): Promise<any> =>
      (await forTests.engine.docker.getContainer(container).inspect()).State;
    process.kill((await state()).Pid, 'SIGUSR1');
    if (isOver) await until(async () => !(await state()).Running, 'the container has ended');
    await startWorker();
    const run = await untilState(id, 'COMPLETED', 'FAILED');
    assert.deepEqual([run.state, run.current_attempt], ['COMPLETED', 1]);
    return (await printed(id)).map((line) => line.trimEnd());
  };

  test('has each line once and in order of a container that printed at once what the engine keeps of it', async () => {
    const numbers = Array.from({ length: 20_000 }, (_, i) => String(i + 1));
    assert.deepEqual(await flood(numbers.length, true), ['begin', ...numbers]);
  });

  test.each([
    ['has ended', 100_000, true],
    ['prints on while its log is read', 200_000, false],
  ])(
    'has a mark where lines are missing of a container that printed at once more than the engine keeps, and %s',
    async (_, count, isOver) => {
      const lines = await flood(count, isOver);
      assert.ok(lines.some(isMark), 'more was printed than the engine keeps');
      let last = 0;
      for (const [n, line] of lines.entries()) {
        if (line === 'begin' || isMark(line)) continue;
        const number = Number(line);
        assert.ok(isMark(lines[n - 1]) ? number > last : number === last + 1, `${line} after ${last}`);
        last = number;
      }
      assert.equal(last, count);
    },
  );

  test('leaves its containers at a shutdown with SERVICE_WORKER_ON_STOP=leave, at once and with nothing reported', async () => {
    worker.signal('SIGTERM');
    await worker.exited;
    await startWorker({ SERVICE_WORKER_ON_STOP: 'leave', SERVICE_WORKER_DRAIN: '600' });
    const id = await create(counts, { env: { STEPS: '400', CODE: '0' } });
    await untilPrinted(id, 'out 1');
    worker.signal('SIGTERM');
    assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.output);
    assert.equal((await forTests.engine.containerIds()).length, 1);
    await startWorker();
    const run = await untilState(id, 'COMPLETED', 'FAILED');
    assert.deepEqual([run.state, run.outputs, run.current_attempt], ['COMPLETED', { steps: 400 }, 1]);
    const lines = await printed(id);
    const numbers = Array.from({ length: 400 }, (_, i) => `out ${i + 1}`);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('out')),
      numbers,
    );
  });

  test('masks a value that was cut between the last line of the old process and the first of the new one', async () => {
    await put('first-half-second-half');
    const script = `printf 'begin %.10s' "$TOKEN"; sleep 6; printf '%s end\\n' "\${TOKEN#first-half}"; cat /run/key`;
    const image = await forTests.engine.publishScript('cuts', script);
    const id = await create(image, {
      secrets: { TOKEN: 'token' },
      files: { '/run/key': { secret: 'token' } },
    });
    await untilPrinted(id, 'begin');
    await kill();
    await put('another-value');
    await startWorker();
    await untilState(id, 'COMPLETED');
    const lines = await printed(id);
    assert.equal(lines.join('|').replaceAll('|', ''), 'begin *** end***');
  });

  test('removes the container of an attempt that it has lost, and reports nothing of it', async () => {
    const id = await create(counts, { env: { STEPS: '100000', CODE: '0' } });
    await untilPrinted(id, 'out 1');
    await kill();
    await send('POST', `/runs/${id}/cancel`);
    const { events } = await untilState(id, 'CANCELLED');
    await startWorker();
    await until(async () => (await forTests.engine.containerIds()).length === 0, 'the container is removed');
    assert.deepEqual((await get(id)).events, events);
  });

  test('starts a run again at once whose container ended with the engine', async () => {
    const id = await create(counts, { env: { STEPS: '300', CODE: '0' } });
    await untilPrinted(id, 'out 1');
    await kill();
    await forTests.engine.restartEngine('SIGTERM');
    await startWorker();
    const { events } = await untilState(id, 'COMPLETED', 'FAILED');
    const failed = events.find(({ type }: { type: string }) => type === 'FAILED');
    assert.equal(failed?.payload.cause, 'infrastructure');
    assert.match(failed.payload.error_message, /engine stopped while the container was running/);
    assert.equal((await get(id)).state, 'COMPLETED');
  });
});
