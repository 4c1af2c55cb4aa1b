import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from './root.mjs';
import { KEY } from './service.mjs';
import { quantile } from './stats.mjs';

/** A warm-up lasts at most so long, in seconds. */
const WARM_UP_S = 3;

/**
 * Drives a service by a scenario from a process of its own.
 * @param load `scenario` (a name in scenarios.mjs), `clients`, `seconds`, `options` of the scenario; `rate` in steps a
 * second for an open loop, left out for a closed one
 * @returns units a second (a step is one, unless it answers how many it was), and p50 and p99 of a step in milliseconds
 * @throws Error when a step failed
 */
export async function drive(url, load) {
  return figuresOf(await generate(url, load));
}

/**
 * The same with `cpuUs`: the CPU that a unit cost the server's process, in microseconds.
 * @param server what `startService` and `startBare` answer
 */
export async function driveWithCpu(server, load) {
  const { figures } = await driveCounting(server, load);
  return figures;
}

/** As `driveWithCpu`, and tells how many units there were. */
export async function driveCounting(server, load) {
  const before = await server.cpuSeconds();
  const outcome = await generate(server.url, load);
  const spent = (await server.cpuSeconds()) - before;
  return {
    units: outcome.units,
    figures: { ...figuresOf(outcome), cpuUs: (spent * 1e6) / outcome.units },
  };
}

/** Drives it for a while before anything is measured. */
export async function warmUp(url, load) {
  await drive(url, { ...load, seconds: Math.min(WARM_UP_S, load.seconds) });
}

/**
 * Drives a service several times after a warm-up.
 * @returns the figures of every round
 */
export async function driveRounds(url, load, rounds = 3) {
  await warmUp(url, load);
  const figures = [];
  for (let round = 0; round < rounds; round += 1) figures.push(await drive(url, load));
  return figures;
}

function figuresOf({ latencies, units, elapsed }) {
  return { perSecond: units / elapsed, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
}

async function generate(url, load) {
  const child = fork(join(ROOT, 'bench/lib/generator.mjs'), { serialization: 'advanced' });
  const gone = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the load generator ended (${signal ?? code}) without an answer`);
  });
  const answer = once(child, 'message');
  child.send({ url, key: KEY, options: {}, ...load });
  const [outcome] = await Promise.race([answer, gone]);
  const { failures, firstFailure } = outcome;
  if (failures > 0) throw new Error(`${failures} steps of ${load.scenario} failed: ${firstFailure}`);
  return outcome;
}
