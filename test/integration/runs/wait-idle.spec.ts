import assert from 'node:assert/strict';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { test } from 'vitest';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { isTerminal } from '../../../src/runs/machine/run-state.js';
import { RunPolls } from '../../../src/runs/http/run-polls.js';
import { RunReader } from '../../../src/runs/reading/run.reader.js';
import { startTestApp } from '../../support/app/test-app.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { until } from '../../support/service-process.js';

const WAITERS = 5_000;
const RUNS = 100;
const QUIET_MS = 2_000;

const statements = logStatements();

/** Reads of runs that waiting requests share. */
const reads = (): number => statements.filter((sql) => /from runs r\b/.test(sql)).length;

test('5,000 waits for runs, half of them for one, cost no statement while nothing happens, and share what they read', async () => {
  const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
  const steps = new RunSteps(service.send);
  const created = await Promise.all(Array.from({ length: RUNS }, () => steps.create()));
  const ids = created.map(({ id }) => String(id));
  const [one = ''] = ids;
  const changes = service.app.get(RunPolls);
  const reader = service.app.get(RunReader);
  let answered = 0;

  /** What a request does when the service has authenticated it. */
  async function wait(id: string): Promise<string> {
    await changes.waitUntil(id, ({ state }) => isTerminal(state), {
      forMs: 600_000,
      signal: new AbortController().signal,
    });
    answered += 1;
    return (await reader.getRun(id, false)).state;
  }

  statements.length = 0;
  const byHttp = ids.map(async (id) => (await service.send('GET', `/runs/${id}?wait=60`)).body.state);
  await until(() => service.app.get(HeldRequests).size === RUNS, 'every request waits');
  const inMemory = Array.from({ length: WAITERS - RUNS }, async (_, n) => {
    await setImmediate();
    return wait(n % 2 === 0 ? one : (ids[n % RUNS] ?? one));
  });
  await sleep(QUIET_MS);
  assert.ok(reads() <= RUNS, `${reads()} statements for ${WAITERS} waits`);

  statements.length = 0;
  await sleep(QUIET_MS);
  // On a busy machine, a slow connection makes the service ask whether the database answers.
  const onTables = statements.filter((sql) => /\b(?:from|into|update)\s+[a-z]/.test(sql));
  assert.deepEqual(onTables, []);

  await steps.note(one);
  await sleep(QUIET_MS);
  assert.equal(answered, 0);
  // One by the event itself.
  assert.ok(reads() <= 2, `${reads()} reads of a run with ${WAITERS / 2} waits`);

  statements.length = 0;
  await Promise.all(ids.map((id) => service.send('POST', `/runs/${id}/cancel`)));
  const states = await Promise.all([...inMemory, ...byHttp]);
  assert.ok(states.every((state) => state === 'CANCELLED'));
  assert.ok(reads() <= 4 * RUNS, `${reads()} statements for ${WAITERS} answers`);
  await service.close();
});
