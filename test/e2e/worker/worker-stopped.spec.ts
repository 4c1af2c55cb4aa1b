import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { OlderService } from '../../support/programs/older-service.js';
import { RawWorker } from '../../support/workers/raw-worker.js';
import { RunViews } from '../../support/runs/run-views.js';
import { startService, until, type ServiceProcess, type TestProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { endWorker, isAlive, ScriptImages, untilFile } from '../../support/workers/worker-process.js';

const TIMEOUT_S = 2;
const TOPIC = 'stopped';
const FOR_EVER = 'while :; do sleep 0.2; done';

/** A report of a worker that comes back too late. */
interface Late {
  readonly type: string;
  /** What its program does once the worker has been stopped. */
  readonly program: string;
}

const LATE: readonly Late[] = [
  { type: 'PROGRESS', program: `echo '{"type":"PROGRESS","msg":77}'; ${FOR_EVER}` },
  { type: 'COMPLETED', program: `echo '{"late":true}' >"$SERVICE_OUTPUT_PATH"` },
  { type: 'FAILED', program: 'exit 3' },
];

describe('a worker that stands still for longer than the timeout', () => {
  let service: ServiceProcess;
  let older: OlderService;
  let send: Send;
  let runs: RunViews;
  let images: ScriptImages;
  let rescuer: RawWorker;
  const workers: TestProcess[] = [];

  beforeAll(async () => {
    service = await startService({
      env: {
        SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests',
        SERVICE_WORKER_TIMEOUT: String(TIMEOUT_S),
        SERVICE_REAPER_INTERVAL: '0.3',
      },
    });
    older = await OlderService.start(service.url);
    send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
    runs = new RunViews(send);
    images = await ScriptImages.make();
    rescuer = await RawWorker.start(send, 'rescuer', 250);
  });
  afterEach(() => {
    for (const worker of workers.splice(0)) worker.signal('SIGKILL');
  });
  afterAll(async () => {
    rescuer.end();
    older.close();
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  const start = async (
    id: string,
    tick: string,
    { url }: { readonly url: string } = service,
  ): Promise<TestProcess> => {
    const env = { SERVICE_WORKER_TICK: tick, SERVICE_WORKER_MAX_RUNS: '2' };
    const worker = await images.startWorker({
      url,
      key: 'e2e-worker-key-of-the-tests',
      id,
      env,
    });
    workers.push(worker);
    return worker;
  };
  const create = (image: string, body: object = {}) =>
    runs.create(image, { event_delivery: { topic: TOPIC }, ...body });

  /** STARTED is reported before the program starts. */
  const untilStarted = async (id: string, image: string): Promise<void> => {
    await runs.untilState(id, 'RUNNING');
    await until(async () => (await images.startsOf(image)).length === 1, 'the program has started');
  };

  /** Stops the worker until the service has taken its runs, and hands those to the rescuer as attempt 2. */
  const stopUntilLost = async (worker: TestProcess, ...ids: string[]): Promise<void> => {
    worker.signal('SIGSTOP');
    for (const id of ids) await runs.until(id, 'is taken back', (run) => run.current_attempt === 2);
    for (let claimed = 0; claimed < ids.length;) claimed += (await rescuer.claim(5)).length;
    for (const id of ids) {
      assert.equal((await rescuer.report(id, 2, 'STARTED', { worker_id: rescuer.id })).status, 200);
    }
  };

  /** Ends the runs for the service, so that nothing of this test is left in the queue. */
  const complete = async (...ids: string[]): Promise<void> => {
    for (const id of ids) {
      assert.equal((await rescuer.report(id, 2, 'COMPLETED')).status, 200);
      rescuer.running.delete(id);
    }
  };

  for (const { type, program } of LATE) {
    for (const locked of [false, true]) {
      const now = locked ? 'has ended' : 'is with another worker';
      test(`changes nothing with a late ${type} about a run that ${now}, and ends its program`, async () => {
        const name = `${type.toLowerCase()}-${locked ? 'ended' : 'taken'}`;
        const gate = images.gate(name);
        await images.add(name, `${untilFile(gate.path)}; ${program}`);
        // It polls its runs once an hour: the refusal of its report is all that tells it.
        const worker = await start(name, '3600', older);
        const id = await create(name);
        await untilStarted(id, name);
        await stopUntilLost(worker, id);
        if (locked) await complete(id);
        const earlier = await runs.bytes(id, TOPIC);
        await gate.open();
        worker.signal('SIGCONT');
        await worker.untilOutput(new RegExp(`"type":"${type}".*(?:attempt|run) is lost`));
        const [pid = 0] = await images.startsOf(name);
        await until(async () => !(await isAlive(pid)), 'the program has ended');
        assert.deepEqual(await runs.bytes(id, TOPIC), earlier);
        assert.equal((await images.startsOf(name)).length, 1);
        await endWorker(worker);
        assert.deepEqual(await runs.bytes(id, TOPIC), earlier);
        assert.match(
          worker.output,
          locked ? /already in terminal state COMPLETED/ : /is not assigned to worker/,
        );
        if (!locked) await complete(id);
      });
    }
  }

  test('starts nothing when its late STARTED is refused', async (t) => {
    const gate = images.gate('first');
    await images.add('first', untilFile(gate.path));
    await images.add('second', FOR_EVER);
    const worker = await start('starts-late', '3600', older);
    const first = await create('first');
    await untilStarted(first, 'first');
    const registered: { id: string; resources: { cpu_cores: number } }[] = (await send('GET', '/workers'))
      .body;
    const cores = registered.find(({ id }) => id === 'starts-late')?.resources.cpu_cores ?? 0;
    if (cores < 2) {
      await gate.open();
      await endWorker(worker);
      t.skip('a worker with one core claims no run ahead');
      return;
    }
    // It wants the whole machine, so it is claimed and waits until the first has ended.
    const second = await create('second', { constraints: { cpu: cores } });
    await runs.untilState(second, 'ASSIGNED');
    await stopUntilLost(worker, first, second);
    const earlier = await runs.bytes(second, TOPIC);
    await gate.open();
    worker.signal('SIGCONT');
    await worker.untilOutput(/"type":"COMPLETED".*(?:attempt|run) is lost/);
    // By the refused STARTED, or by a look before it where the claim's answer came only after the standstill.
    await worker.untilOutput(new RegExp(`"run":"${second}".*(?:attempt|run) is lost`));
    await endWorker(worker);
    assert.deepEqual(await runs.bytes(second, TOPIC), earlier);
    assert.deepEqual(await images.startsOf('second'), []);
    await complete(first, second);
  });

  test('finds out by itself that a silent run is lost, within a few ticks', async () => {
    await images.add('silent', FOR_EVER);
    const worker = await start('silent', '0.2');
    const id = await create('silent');
    await untilStarted(id, 'silent');
    await stopUntilLost(worker, id);
    const earlier = await runs.bytes(id, TOPIC);
    const [pid = 0] = await images.startsOf('silent');
    assert.ok(await isAlive(pid), 'the program works on while its worker stands still');
    worker.signal('SIGCONT');
    await until(async () => !(await isAlive(pid)), 'the program is stopped');
    assert.deepEqual(await runs.bytes(id, TOPIC), earlier);
    await endWorker(worker);
    assert.deepEqual(await runs.bytes(id, TOPIC), earlier);
    await complete(id);
  });

  test('ends its old attempt before it begins the next one of the same run', async () => {
    const gate = images.gate('own');
    // Stubborn, so that the end of the old one takes its time.
    await images.add('own', `trap '' TERM; ${untilFile(gate.path)}`);
    const worker = await start('own', '0.2');
    const id = await create('own');
    await untilStarted(id, 'own');
    worker.signal('SIGSTOP');
    await runs.until(id, 'is taken back', (run) => run.current_attempt === 2);
    worker.signal('SIGCONT');
    const [old = 0] = await images.startsOf('own');
    await until(async () => (await images.startsOf('own')).length === 2, 'attempt 2 begins');
    assert.equal(await isAlive(old), false, 'attempt 1 has ended before');
    await gate.open();
    await runs.untilState(id, 'COMPLETED');
    assert.deepEqual(await runs.timeline(id), ['1 STARTED', '1 RECLAIMED', '2 STARTED', '2 COMPLETED']);
    await endWorker(worker);
  });
});
