import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { freePort } from '../../support/programs/free-port.js';
import { RunViews } from '../../support/runs/run-views.js';
import {
  launchService,
  makeDataDir,
  startService,
  until,
  type LaunchedService,
  type ServiceProcess,
} from '../../support/service-process.js';
import { endWorker, ScriptImages, untilFile } from '../../support/workers/worker-process.js';

const KEY = 'e2e-admin-key-of-the-tests';
const { O_NONBLOCK, O_RDONLY } = constants;

/** A named pipe with both ends open, which holds 64 KiB. */
class Pipe {
  private constructor(
    readonly reader: number,
    readonly writer: number,
  ) {}

  static async make(): Promise<Pipe> {
    const path = join(await makeDataDir(), 'pipe');
    execFileSync('mkfifo', [path]);
    const reader = openSync(path, O_RDONLY | O_NONBLOCK);
    return new Pipe(reader, openSync(path, 'w'));
  }

  /** What is in the pipe. */
  read(): string {
    const buffer = Buffer.alloc(1 << 20);
    try {
      return buffer.toString('utf8', 0, readSync(this.reader, buffer));
    } catch {
      return '';
    }
  }
}

/** Starts the service with this standard output, and waits until it answers. */
async function serve(stdout: number, env: Readonly<Record<string, string>> = {}) {
  const port = await freePort();
  const service = await launchService({
    stdout,
    env: { SERVICE_PORT: String(port), SERVICE_API_KEYS: `admin:${KEY}`, ...env },
  });
  closeSync(stdout);
  const send = senderTo(`http://127.0.0.1:${port}`, KEY);
  let ended = false;
  void service.exited.then(() => (ended = true));
  await until(async () => {
    assert.ok(!ended, `it ended: ${service.output}`);
    return (await send('GET', '/health').catch(() => null))?.status === 200;
  }, 'the service answers');
  return { service, send };
}

async function end(service: LaunchedService): Promise<void> {
  service.signal('SIGTERM');
  assert.deepEqual(await service.exited, { code: 0, signal: null }, service.output);
  assert.equal(await readPostmasterFile(join(service.dataDir, 'postgres')), null);
}

async function metric(send: Send, name: string): Promise<number> {
  const { text } = await send('GET', '/metrics');
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

async function createKeys(send: Send, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const answer = await send('POST', '/api-keys', {
      body: { name: `${n}`.padEnd(100, '.'), scopes: ['client'] },
    });
    assert.equal(answer.status, 201, answer.text);
  }
}

describe('a service whose log cannot be written', () => {
  for (const workers of [1, 2]) {
    it(`on a full disk answers as ever, counts, and stops in order with its database: ${workers} processes`, async () => {
      const env = { SERVICE_WORKERS: String(workers), SERVICE_LOG_LEVEL: 'debug' };
      const { service, send } = await serve(openSync('/dev/full', 'w'), env);
      await createKeys(send, 5);
      assert.ok((await metric(send, 'longshore_log_waiting_bytes')) > 0);
      await end(service);
    });
  }

  it('because its reader stopped reading answers as ever, and loses no line of what then waits', async () => {
    const pipe = await Pipe.make();
    const { service, send } = await serve(pipe.writer, { SERVICE_LOG_LEVEL: 'debug' });
    let made = 0;
    while ((await metric(send, 'longshore_log_waiting_bytes')) === 0) {
      await createKeys(send, 25);
      made += 25;
    }
    assert.equal((await send('GET', '/health')).status, 200);
    let log = '';
    await until(async () => {
      log += pipe.read();
      return (await metric(send, 'longshore_log_waiting_bytes')) === 0;
    }, 'the waiting lines are written');
    log += pipe.read();
    assert.ok(
      log
        .split('\n')
        .filter((line) => line !== '')
        .every((line) => JSON.parse(line).pid > 0),
    );
    assert.equal(log.match(/"msg":"created an API key/g)?.length, made, log.slice(0, 2_000));
    assert.equal(await metric(send, 'longshore_log_lines_dropped_total'), 0);
    await end(service);
    closeSync(pipe.reader);
  });
});

describe('a worker whose log cannot be written', () => {
  let service: ServiceProcess;
  let runs: RunViews;
  let images: ScriptImages;

  beforeAll(async () => {
    service = await startService({
      env: { SERVICE_API_KEYS: `admin:${KEY},worker:e2e-worker-key-of-the-tests` },
    });
    runs = new RunViews(senderTo(service.url, KEY));
    images = await ScriptImages.make();
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  /** Has a run executed by a worker, whose output breaks while the program runs. */
  async function execute(name: string, stdout: number, breakIt: () => void): Promise<void> {
    const gate = images.gate(name);
    await images.add(name, `${untilFile(gate.path)}; echo '{}' >"$SERVICE_OUTPUT_PATH"`);
    const worker = await images.startWorker({
      url: service.url,
      key: 'e2e-worker-key-of-the-tests',
      id: name,
      stdout,
    });
    closeSync(stdout);
    const id = await runs.create(name);
    await runs.untilState(id, 'RUNNING');
    breakIt();
    await gate.open();
    await runs.untilState(id, 'COMPLETED', 'FAILED');
    assert.deepEqual(await runs.timeline(id), ['1 STARTED', '1 COMPLETED']);
    await endWorker(worker);
    assert.equal((await images.startsOf(name)).length, 1);
  }

  it('on a full disk executes its runs, once each', () =>
    execute('full', openSync('/dev/full', 'w'), () => undefined));

  it('because its reader ended executes its runs, once each', async () => {
    const pipe = await Pipe.make();
    await execute('ended', pipe.writer, () => closeSync(pipe.reader));
  });
});
