import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it } from 'vitest';
import { createLongshoreClient } from '@longshore/client';
import {
  assertNothingLeft,
  childPids,
  startDemo,
  type DemoProcess,
} from '../../support/programs/demo-process.js';
import { until } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

async function assertStops(demo: DemoProcess): Promise<void> {
  assert.deepEqual(await demo.exited, { code: 0, signal: null }, demo.output);
  assert.match(demo.stdout, /^stopped$/m);
  await assertNothingLeft(demo);
}

/** What the printed line asks for, without needing curl. */
function readCurlLine(line: string): { url: string; key: string; body: { image: string } } {
  const [, url = '', key = '', body = ''] =
    /^curl -sS (\S+)\/runs -H 'X-API-Key: ([^']+)' -H 'Content-Type: application\/json' -d '([^']+)'$/.exec(
      line,
    ) ?? [];
  return { url, key, body: JSON.parse(body) };
}

// Without /proc nobody can say which processes are the demo's.
const skip = existsSync('/proc/self/environ') ? false : 'needs /proc';

describe('a demo that keeps serving', skipFor(skip), () => {
  it('prints a line that creates the next run, which is executed', async () => {
    const demo = await startDemo();
    await demo.untilOutput(/^serving until Ctrl-C$/m);
    const [line = ''] = /^curl .*$/m.exec(demo.stdout) ?? [];
    const { url, key, body } = readCurlLine(line);
    const client = createLongshoreClient({ baseUrl: url, apiKey: key });
    const { data: created } = await client.POST('/runs', { body });
    assert.ok(created !== undefined);
    await until(async () => {
      const { data } = await client.GET('/runs/{id}', { params: { path: { id: created.id } } });
      return data?.state === 'COMPLETED' && data.outputs['words'] === 3;
    }, 'the run does not complete');
    demo.signal('SIGINT');
    await assertStops(demo);
  });

  it('leaves something to show on every page of the dashboard', async () => {
    const demo = await startDemo();
    await demo.untilOutput(/^serving until Ctrl-C$/m);
    const { url, key: apiKey } = readCurlLine(/^curl .*$/m.exec(demo.stdout)?.[0] ?? '');
    const client = createLongshoreClient({ baseUrl: url, apiKey });
    const definitions = (await client.GET('/latest-definitions')).data ?? [];
    const runs = (await client.GET('/runs')).data?.data ?? [];
    assert.deepEqual(
      new Set(runs.map((run) => run.op_definition)),
      new Set(['fail', 'progress', 'word-count']),
    );
    const topic = definitions[0]?.event_delivery?.topic ?? '';
    const feed = (await client.GET('/feed', { params: { query: { topic } } })).data?.events ?? [];
    const workers = (await client.GET('/workers')).data ?? [];
    const keys = (await client.GET('/api-keys')).data ?? [];
    const audit = (await client.GET('/audit')).data ?? [];
    const counts = { definitions, feed, workers, keys, audit };
    for (const [page, rows] of Object.entries(counts)) assert.ok(rows.length > 0, page);
    demo.signal('SIGINT');
    await assertStops(demo);
  });

  it('stops cleanly in the middle of its runs, however often it is told to', async () => {
    const demo = await startDemo();
    await demo.untilOutput(/progress +PROGRESS +20 %/);
    demo.signal('SIGINT', 'group');
    demo.signal('SIGINT', 'group');
    demo.signal('SIGTERM');
    await assertStops(demo);
  });

  it('stops cleanly while it starts', async () => {
    const demo = await startDemo();
    await demo.untilOutput(/starting the service/);
    demo.signal('SIGTERM');
    await assertStops(demo);
  });

  for (const name of ['service', 'worker'] as const) {
    it(`ends with exit code 1 and the end of the log when its ${name} dies`, async () => {
      const demo = await startDemo();
      await demo.untilOutput(/progress +PROGRESS +10 %/);
      const [pid, ...more] = await childPids(demo, name);
      assert.ok(pid !== undefined && more.length === 0);
      process.kill(pid, 'SIGKILL');
      assert.deepEqual(await demo.exited, { code: 1, signal: null }, demo.output);
      assert.match(demo.stderr, new RegExp(`^the ${name} ended unexpectedly \\(SIGKILL\\)`, 'm'));
      assert.match(demo.stderr, /^ {2}\| \{"level":/m);
      await assertNothingLeft(demo);
    });
  }
});
