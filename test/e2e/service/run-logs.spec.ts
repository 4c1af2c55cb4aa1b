import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { RunViews } from '../../support/runs/run-views.js';
import { makeDataDir, startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { endWorker, ScriptImages, untilFile } from '../../support/workers/worker-process.js';

const TIMEOUT_S = 3;
const FLOOD_BYTES = 100_000_000;

/** One object of a log in JSON lines. */
interface LogItem {
  readonly line: number;
  readonly stream?: string;
  readonly text?: string;
  readonly gap?: { readonly lines: number; readonly bytes: number | null };
}

describe('the log of a run', () => {
  let service: ServiceProcess;
  let send: Send;
  let runs: RunViews;
  let images: ScriptImages;
  const env: Record<string, string> = {
    SERVICE_API_KEYS:
      'admin:e2e-admin-key-of-the-tests,worker@order+stopped+flood+killed+steady:e2e-worker-key-of-the-tests',
    SERVICE_WORKER_TIMEOUT: String(TIMEOUT_S),
    SERVICE_REAPER_INTERVAL: '0.5',
  };

  beforeAll(async () => {
    service = await startService({ dataDir: await makeDataDir(), env });
    send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
    runs = new RunViews(send);
    images = await ScriptImages.make();
  });
  afterAll(async () => {
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  const start = (id: string) =>
    images.startWorker({ url: service.url, key: 'e2e-worker-key-of-the-tests', id });

  /** Everything that is there, page by page. */
  const readLog = async (id: string, query = ''): Promise<{ items: LogItem[]; isComplete: boolean }> => {
    const items: LogItem[] = [];
    for (let seen = ''; ;) {
      const cursor = seen === '' ? '' : `&after=${encodeURIComponent(seen)}`;
      const { status, text, headers } = await send('GET', `/runs/${id}/logs?limit=5000${query}${cursor}`);
      assert.equal(status, 200, text);
      for (const line of text.split('\n').filter((one) => one !== '')) items.push(JSON.parse(line));
      seen = headers.get('X-Log-Next-Cursor') ?? '';
      if (headers.get('X-Log-Has-More') !== 'true') {
        return { items, isComplete: headers.get('X-Log-Complete') === 'true' };
      }
    }
  };

  const untilLines = async (id: string, count: number): Promise<LogItem[]> => {
    let items: LogItem[] = [];
    await until(async () => {
      const { status } = await send('GET', `/runs/${id}/logs`);
      if (status !== 200) return false;
      ({ items } = await readLog(id));
      return items.length >= count;
    }, `${count} lines of the log of run ${id}`);
    return items;
  };

  test('is readable while the run works, and whole when it has ended', async () => {
    const gate = images.gate('order');
    const script = [
      'echo one',
      'sleep 0.2',
      'echo two >&2',
      untilFile(gate.path),
      'echo',
      'sleep 0.2',
      'printf "three, \\303\\251 \\377" >&2',
      'exit 1',
    ];
    await images.add('order', script.join('\n'));
    const worker = await start('order');
    const id = await runs.create('order');
    const early = await untilLines(id, 2);
    assert.deepEqual(shown(early), ['0 stdout one', '1 stderr two']);
    await gate.open();
    await runs.untilState(id, 'FAILED');
    const { items, isComplete } = await readLog(id);
    assert.deepEqual(shown(items), ['0 stdout one', '1 stderr two', '2 stdout ', '3 stderr three, é \uFFFD']);
    assert.equal(isComplete, true);
    await endWorker(worker);
  });

  test('is there for a run that was cancelled, and says why for one that never started', async () => {
    await images.add(
      'stopped',
      `exec 2>/dev/null; trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.05; done`,
    );
    const worker = await start('stopped');
    const id = await runs.create('stopped');
    await untilLines(id, 1);
    assert.equal((await send('POST', `/runs/${id}/cancel`)).status, 200);
    await until(async () => (await readLog(id)).isComplete, 'the log has ended');
    assert.deepEqual(shown((await readLog(id)).items), [
      '0 stdout hi',
      '1 stdout bye',
      '2 stderr [worker] stopped: the run is CANCELLED',
    ]);
    const missing = await runs.create('nowhere');
    await runs.untilState(missing, 'FAILED');
    const { items, isComplete } = await readLog(missing);
    assert.match(items[0]?.text ?? '', /^\[worker\] Image 'nowhere' was not found/);
    assert.equal(isComplete, true);
    await endWorker(worker);
  });

  test('of 100 MB costs neither heartbeats nor memory, and keeps its first and last lines', async (t) => {
    const line = 'x'.repeat(99);
    await images.add('flood', `echo first; yes ${line} | head -c ${FLOOD_BYTES}; echo last`);
    const worker = await start('flood');
    await worker.untilOutput(/registered at the service/);
    const beforeMb = await peakMb(worker.pid);
    const id = await runs.create('flood');
    let wasSilent = false;
    await until(async () => {
      const { body } = await send('GET', '/workers');
      const one = body.find(({ id: name }: { id: string }) => name === 'flood');
      wasSilent ||= !one.is_active;
      return (await runs.get(id)).state === 'COMPLETED';
    }, 'the run has ended');
    const grownMb = (await peakMb(worker.pid)) - beforeMb;
    const isComplete = async () =>
      (await send('GET', `/runs/${id}/logs?tail=1`)).headers.get('X-Log-Complete') === 'true';
    await until(isComplete, 'the log has ended');
    const { items } = await readLog(id);
    assert.equal(items[0]?.text, 'first');
    assert.equal(items.at(-1)?.text, 'last');
    assertDense(items);
    assert.equal((items.at(-1)?.line ?? 0) + 1, FLOOD_BYTES / 100 + 2);
    await t.annotate(`memory grew by ${grownMb.toFixed(0)} MB, ${items.length} lines kept`);
    assert.ok(!wasSilent, 'it goes on with its heartbeats');
    assert.ok(grownMb < 150, `the worker's memory grew by ${grownMb} MB`);
    await endWorker(worker);
  });

  test('loses nothing that was acknowledged when its worker is killed', async () => {
    await images.add('endless', 'n=0; while :; do echo "line $n"; n=$((n+1)); sleep 0.002; done');
    const worker = await start('killed');
    const id = await runs.create('endless');
    const seen = await untilLines(id, 300);
    worker.signal('SIGKILL');
    await worker.exited;
    const { items } = await readLog(id, '&attempt=1');
    assert.deepEqual(items.slice(0, seen.length), seen);
    assert.deepEqual(
      items.map(({ text }) => text),
      items.map((_, n) => `line ${n}`),
    );
    assert.equal((await send('POST', `/runs/${id}/cancel`)).status, 200);
  });

  test('has every line once when the service is killed and comes back', async () => {
    const count = 3_000;
    await images.add(
      'steady',
      `n=0; while [ $n -lt ${count} ]; do echo "line $n"; n=$((n+1)); sleep 0.002; done`,
    );
    const worker = await start('steady');
    const id = await runs.create('steady');
    await untilLines(id, 200);
    const { port } = new URL(service.url);
    const { dataDir } = service;
    await service.kill('SIGKILL');
    service = await startService({ dataDir, env: { ...env, SERVICE_PORT: port } });
    await runs.untilState(id, 'COMPLETED');
    await until(async () => (await readLog(id)).isComplete, 'the log has ended');
    const { items } = await readLog(id);
    assert.deepEqual(
      items.map(({ line, text }) => `${line} ${text}`),
      Array.from({ length: count }, (_, n) => `${n} line ${n}`),
    );
    await endWorker(worker);
  });
});

function shown(items: readonly LogItem[]): string[] {
  return items.map(({ line, stream, text }) => `${line} ${stream} ${text}`);
}

/** Every line is there or in a gap that is named. */
function assertDense(items: readonly LogItem[]): void {
  let next = 0;
  for (const { line, gap } of items) {
    assert.equal(line, next);
    next += gap?.lines ?? 1;
  }
}

/** The most memory that the process ever had, in MB. */
async function peakMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) / 1024;
}
