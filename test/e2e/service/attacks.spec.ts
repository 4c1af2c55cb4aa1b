import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { describe, it, type TestContext } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { ATTACK_NAMES, missingAnswers, startAttacks } from '../../support/http/attacks.js';
import { atDepth } from '../../support/depth.js';
import { limitMemory } from '../../support/images/memory-cgroup.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';

const KEYS = {
  admin: 'admin-key-of-the-attacked',
  client: 'client-key-of-the-attacker',
  worker: 'worker-key-of-the-attacker',
} as const;

const MEMORY_LIMIT = 1024 ** 3;
const DURATION_MS = atDepth({ fast: 4_000, all: 4_000, soak: 60_000 });
/** Time in which the machine shows what the client can do without an attack. */
const CALM_MS = 2_000;
/** Time between two creations, and between two reports, of the client that is not the attacker. */
const PACE_MS = 100;
/** Time between two requests for health: often enough for a percentile. */
const HEALTH_PACE_MS = 25;
/** Time in which an attack reaches its limit, on a slow machine. */
const REACHED_MS = 120_000;
/**
 * What others keep: their share of the rate before, in percent. The tier `soak`, for
 * a quiet machine, asks for what the service promises; a gate on a busy one only for a service that goes on.
 */
const KEPT_PERCENT = atDepth({ fast: 10, all: 10, soak: 50 });
/** Time after which everything that an attacker used is released. */
const RELEASED_MS = 120_000;

interface Seen {
  created: number;
  reported: number;
  /** Whether health answered 200, for each time it was asked. */
  readonly healthy: boolean[];
}

/** Creates, reports and asks for health at a fixed pace until the signal aborts. */
async function useService(send: Send, stop: AbortSignal): Promise<Seen> {
  const seen: Seen = { created: 0, reported: 0, healthy: [] };
  const { body: run } = await send('POST', '/runs', { body: { image: 'honest' } });
  const note = { type: 'NOTE', msg: '', payload: {} };
  const pace = async (act: () => Promise<unknown>, ms = PACE_MS): Promise<void> => {
    while (!stop.aborted) await Promise.all([act().catch(() => undefined), sleep(ms)]);
  };
  await Promise.all([
    pace(async () => {
      if ((await send('POST', '/runs', { body: { image: 'honest' } })).status === 201) seen.created += 1;
    }),
    pace(async () => {
      if ((await send('POST', `/runs/${run.id}/events`, { body: note })).status === 200) seen.reported += 1;
    }),
    pace(async () => {
      const { status } = await send('GET', '/health').catch(() => ({ status: 0 }));
      seen.healthy.push(status === 200);
    }, HEALTH_PACE_MS),
  ]);
  return seen;
}

async function openFiles({ pid }: ServiceProcess): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

/** What an attack must be answered and was not. Of several ones, the limits that one reaches refuse the others. */
async function missingOf(attacks: readonly string[], attacker: ChildProcess): Promise<readonly number[]> {
  const [name = '', ...others] = attacks;
  return others.length > 0 ? [] : missingAnswers(name, attacker);
}

async function underAttack(attacks: readonly string[], test: TestContext): Promise<void> {
  const database = await openTestDatabase();
  const service = await startService({
    env: {
      DATABASE_URL: database.url,
      SERVICE_API_KEYS: Object.entries(KEYS)
        .map(([scope, key]) => `${scope}:${key}`)
        .join(','),
      SERVICE_LOG_LEVEL: 'error',
    },
  });
  const cgroup = await limitMemory(service.pid, MEMORY_LIMIT);
  try {
    if (cgroup === undefined) {
      test.skip('no control group of memory can be made here');
      return;
    }
    const send = senderTo(service.url, KEYS.admin);
    const largeRuns: string[] = [];
    for (let i = 0; i < 30; i += 1) {
      const body = { image: 'large', inputs: { text: 'x'.repeat(950_000) } };
      largeRuns.push((await send('POST', '/runs', { body })).body.id);
    }
    const before = await openFiles(service);
    const target = { url: service.url, clientKey: KEYS.client, workerKey: KEYS.worker, largeRuns };
    const calm = await useService(send, AbortSignal.timeout(CALM_MS));
    const stop = new AbortController();
    const attacker = startAttacks(attacks, target);
    // Attackers are on other machines: they do not take the processors of this one.
    if (attacker.pid !== undefined) setPriority(attacker.pid, constants.priority.PRIORITY_LOW);
    const using = useService(send, stop.signal);
    const start = performance.now();
    await Promise.race([sleep(DURATION_MS), service.exited]);
    let missing = await missingOf(attacks, attacker);
    while (missing.length > 0 && service.child.exitCode === null && performance.now() < start + REACHED_MS) {
      await sleep(100);
      missing = await missingOf(attacks, attacker);
    }
    const attackedMs = performance.now() - start;
    stop.abort();
    attacker.kill('SIGKILL');
    const { created, reported, healthy } = await using;
    assert.equal(service.child.exitCode ?? service.child.signalCode, null, service.output);
    assert.deepEqual(missing, [], 'the attack has not got answers of these statuses');
    const share = ((attackedMs / CALM_MS) * KEPT_PERCENT) / 100;
    assert.ok(
      created >= calm.created * share,
      `${created} creations in ${Math.round(attackedMs)} ms, ${calm.created} in ${CALM_MS} ms before`,
    );
    assert.ok(
      reported >= calm.reported * share,
      `${reported} reports in ${Math.round(attackedMs)} ms, ${calm.reported} in ${CALM_MS} ms before`,
    );
    const well = healthy.filter(Boolean).length;
    await test.annotate(JSON.stringify({ attackedMs, created, reported, well }));
    assert.ok(well >= healthy.length * 0.99, `health was 200 only ${well} times of ${healthy.length}`);
    const deadline = performance.now() + RELEASED_MS;
    while ((await openFiles(service)) > before + 20 && performance.now() < deadline) await sleep(100);
    assert.ok((await openFiles(service)) <= before + 20, 'connections or files are still open');
    assert.equal((await send('GET', '/health')).status, 200);
  } finally {
    await service.kill();
    await cgroup?.remove();
    await database.close();
  }
}

describe('in 1 GiB of memory the service lives, answers others and releases everything under', () => {
  for (const name of ATTACK_NAMES) {
    it(name, (test) => underAttack([name], test));
  }

  it('all attacks at once', (test) => underAttack(ATTACK_NAMES, test));
});
