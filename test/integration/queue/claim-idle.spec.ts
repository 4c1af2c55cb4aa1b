import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { WaitingClaims } from '../../../src/claims/waiting-claims.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { until } from '../../support/service-process.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';

const WORKERS = 1_000;
/** Workers of which one can execute the run. */
const OTHERS = 300;
const QUIET_MS = 2_000;

const statements = logStatements();

/** Reads of the queue: one for each group of claims, and one of the lanes before the first. */
const lookups = (): number => statements.filter((sql) => /(?<!delete )from queue\b/.test(sql)).length;

async function waitingWorkers(
  service: TestApp,
  count: number,
  resourcesOf: (n: number) => object,
): Promise<{ readonly answers: Promise<TestAnswer>[]; readonly got: string[] }> {
  const steps = new RunSteps(service.send);
  const names = Array.from({ length: count }, (_, n) => `w${n}`);
  await Promise.all(names.map((name, n) => steps.heartbeat(name, { resources: resourcesOf(n) })));
  const got: string[] = [];
  const answers = names.map((name) => service.send('POST', `/workers/${name}/claim?wait=30`));
  for (const [n, answer] of answers.entries()) {
    void answer.then(({ body }) => got.push(...body.ops.map((op: { id: string }) => `${names[n]} ${op.id}`)));
  }
  const claims = service.app.get(WaitingClaims, { strict: false });
  await until(() => claims.size === count, 'every claim waits');
  return { answers, got };
}

describe('a thousand waiting claims', () => {
  test('cost no statement while nothing happens, and a run wakes one of them', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const { answers, got } = await waitingWorkers(service, WORKERS, () => ({
      cpu_cores: 1,
      ram_mb: 1,
      gpus: [],
    }));
    statements.length = 0;
    await sleep(QUIET_MS);
    // On a busy machine, a slow connection makes the service ask whether the database answers.
    const onTables = statements.filter((sql) => /\b(?:from|into|update)\s+(?!pg_)[a-z]/.test(sql));
    assert.deepEqual(onTables, []);

    const { id } = await new RunSteps(service.send).create();
    await until(() => got.length > 0, 'the run is handed out');
    await sleep(200);
    assert.equal(got.length, 1);
    assert.match(got[0] ?? '', new RegExp(` ${id}$`));
    assert.ok(lookups() <= 2, statements.join('\n'));
    assert.equal(service.app.get(WaitingClaims, { strict: false }).size, WORKERS - 1);
    await service.close();
    await Promise.allSettled(answers);
  });

  test('are woken in waves until the only suitable worker gets the run', async () => {
    const service = await startTestApp({
      env: { SERVICE_REAPER_INTERVAL: '3600', SERVICE_SCHEDULER: 'fit' },
    });
    const big = 277;
    const { answers, got } = await waitingWorkers(service, OTHERS, (n) => ({
      cpu_cores: n === big ? 64 : 1,
      ram_mb: 1,
      gpus: [],
    }));
    statements.length = 0;
    const { id } = await new RunSteps(service.send).create({ constraints: { cpu: 32 } });
    await until(() => got.length > 0, 'the run is handed out');
    assert.deepEqual(got, [`w${big} ${id}`]);
    // Waves of 8, 64 and so on, in groups of 200, each with a few statements.
    assert.ok(lookups() <= 30, `${lookups()} looks at the queue`);
    await service.close();
    await Promise.allSettled(answers);
  });
});
