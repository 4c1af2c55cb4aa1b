import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from './root.mjs';
import { KEY } from './service.mjs';
import { quantile } from './stats.mjs';

/**
 * Drives a service by a scenario from a process of its own.
 * @param load `scenario` (a name in scenarios.mjs), `clients`, `seconds`, `options` of the scenario; `rate` in requests a
 * second for an open loop, left out for a closed one
 * @returns steps a second, and p50 and p99 of a step in milliseconds
 * @throws Error when a step failed
 */
export async function drive(url, load) {
  const child = fork(join(ROOT, 'bench/lib/generator.mjs'), { serialization: 'advanced' });
  child.send({ url, key: KEY, options: {}, ...load });
  const [{ latencies, failures, elapsed }] = await once(child, 'message');
  if (failures > 0) throw new Error(`${failures} steps of ${load.scenario} failed`);
  return {
    perSecond: latencies.length / elapsed,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
  };
}

/**
 * The same several times after a warm-up.
 * @returns the figures of every round
 */
export async function driveRounds(url, load, rounds = 3) {
  await drive(url, { ...load, seconds: Math.min(3, load.seconds) });
  const figures = [];
  for (let round = 0; round < rounds; round += 1) figures.push(await drive(url, load));
  return figures;
}
