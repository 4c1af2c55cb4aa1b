import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cli } from '../../support/programs/cli.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { RunViews } from '../../support/runs/run-views.js';
import type { TestProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';

const WRITTEN_URL = 'http://127.0.0.1:5555';

describe('the page about autoscaling', () => {
  let cli: Cli;
  let service: TestProcess;
  let url: string;
  let send: Send;
  let runs: RunViews;
  let blocks: DocBlocks;

  beforeAll(async () => {
    cli = await Cli.make({
      SERVICE_PORT: '0',
      SERVICE_WORKER_TICK: '0.2',
      SERVICE_WORKER_MAX_RUNS: '1',
      AUTOSCALER_INTERVAL: '0.2',
      AUTOSCALER_IDLE_SECONDS: '1',
    });
    blocks = await DocBlocks.read('docs/autoscaling.md');
    service = await cli.startShell('exec longshore serve');
    [, url = ''] = await service.untilOutput(/listening on (http:\/\/[\d.:]+)/);
    const key = (await readFile(join(cli.folder, '.data', 'admin-key'), 'utf8')).trim();
    send = senderTo(url, key);
    runs = new RunViews(send);
  });
  afterAll(async () => {
    service.signal('SIGTERM');
    await service.exited;
  });

  const block = (kind = '', language = 'sh'): string =>
    blocks.one(kind, language).replaceAll(WRITTEN_URL, url);

  /** Workers that claim, by the service's own count. */
  const active = async (): Promise<number> => (await send('GET', '/capacity')).body.supply.workers.active;

  test('shows the fields that an answer has', async () => {
    const written = JSON.parse(block('', 'json'));
    const login = 'longshore login --url "$URL" --key - < .data/admin-key';
    const { code, stdout, output } = await cli.shell(`URL=${url}\n${login}\n${block()}`);
    assert.equal(code, 0, output);
    const told = JSON.parse(/^\{"at".*?\}$/m.exec(stdout.replaceAll('}pending', '}\npending'))?.[0] ?? '');
    assert.deepEqual(keysOf(told, written), keysOf(written, written));
    assert.match(stdout, /0 active/);
  });

  test('shows what an answer to how many workers are wanted has', async () => {
    const { code, stdout, output } = await cli.shell(block('wanted'));
    assert.equal(code, 0, output);
    const written = JSON.parse(block('wanted', 'json'));
    assert.deepEqual(Object.keys(JSON.parse(stdout)), Object.keys(written));
    assert.equal(JSON.parse(stdout).wanted, 0);
  });

  test('starts workers from nothing, ends them when there is nothing to do, and loses no run', async () => {
    assert.equal(await active(), 0);
    const scaler = await cli.startShell(block('worker').replace(/^python3/m, 'exec python3'));
    const create = (steps: number): Promise<string> =>
      runs.create('longshore/progress', { inputs: { steps, seconds: 0.1 }, constraints: { cpu: 1 } });
    const ids = await Promise.all(Array.from({ length: 6 }, (_, n) => create(n + 1)));
    await scaler.untilOutput(/started auto-\w+\nstarted auto-/);
    for (const id of ids) await runs.untilState(id, 'COMPLETED');
    // While it takes workers back, runs go on coming: one after the other, or a slow machine would need all workers.
    while (!/drained/.test(scaler.output)) {
      const id = await create(1);
      ids.push(id);
      await runs.untilState(id, 'COMPLETED');
    }
    await scaler.untilOutput(/drained[^]*drained/);
    while ((await active()) > 0) await sleep(100);
    const again = await create(1);
    ids.push(again);
    await runs.untilState(again, 'COMPLETED');
    scaler.signal('SIGTERM');
    assert.deepEqual(await scaler.exited, { code: 0, signal: null }, scaler.output);
    for (const id of ids) assert.equal((await runs.get(id)).current_attempt, 1, 'no try was lost');
    assert.ok((scaler.output.match(/^started/gm) ?? []).length >= 3, scaler.output);
  });

  test('starts workers with tags for the runs that ask for them, and for no others', async () => {
    const tagged = block('worker').replace(
      /^python3/m,
      'SERVICE_WORKER_TAGS=gpu AUTOSCALER_ONLY_TAGGED=1 exec python3',
    );
    const scaler = await cli.startShell(tagged);
    const inputs = { steps: 1, seconds: 0.1 };
    const plain = await runs.create('longshore/progress', { inputs });
    const elsewhere = await runs.create('longshore/progress', { inputs, selector: ['gpu', 'eu'] });
    await sleep(1000);
    assert.doesNotMatch(scaler.output, /started/);
    const id = await runs.create('longshore/progress', { inputs, selector: ['gpu'] });
    await scaler.untilOutput(/started auto-/);
    await runs.untilState(id, 'COMPLETED');
    assert.equal((await runs.get(elsewhere)).state, 'PENDING');
    scaler.signal('SIGTERM');
    assert.deepEqual(await scaler.exited, { code: 0, signal: null }, scaler.output);
    for (const left of [plain, elsewhere]) await send('POST', `/runs/${left}/cancel`);
  });
});

/** The names of all fields of `value`, as deep as `written` has them. */
function keysOf(value: unknown, written: unknown): unknown {
  if (Array.isArray(written)) return [];
  if (typeof written !== 'object' || written === null) return null;
  const given: Readonly<Record<string, unknown>> = Object(value);
  return Object.fromEntries(
    Object.entries(written)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, inner]) => [name, name in given ? keysOf(given[name], inner) : 'missing']),
  );
}
