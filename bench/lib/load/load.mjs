import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from '../root.mjs';
import { KEY } from '../servers/service.mjs';
import { quantile } from '../pages/stats.mjs';

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
 * Compares two services under the same kind of load, robustly: in a round they take turns in short spells, and the
 * quantiles are those of all latencies of a round.
 * @param subject `{ url, load }`; `load.seconds` is the length of a spell
 * @param beside the other one, which the subject is compared with
 * @returns for each round `{ figures, besideFigures }`: rate, p50, p95 and p99 of both; `figures` also has `timesP50`,
 * `timesP95` and `timesP99`, the subject's quantiles divided by the other's
 */
export async function comparePooled(subject, beside, { rounds, spells }) {
  const compared = [];
  for (const { url, load } of [beside, subject]) await warmUp(url, load);
  for (let round = 0; round < rounds; round += 1) {
    const pools = [
      { ...beside, outcomes: [] },
      { ...subject, outcomes: [] },
    ];
    for (let spell = 0; spell < spells; spell += 1) {
      for (const { url, load, outcomes } of pools) outcomes.push(await generate(url, load));
    }
    const [besideFigures, figures] = pools.map(({ outcomes }) => pooledFiguresOf(outcomes));
    for (const name of ['p50', 'p95', 'p99']) {
      figures[name.replace('p', 'timesP')] = figures[name] / besideFigures[name];
    }
    compared.push({ figures, besideFigures });
  }
  return compared;
}

function pooledFiguresOf(outcomes) {
  const sum = (name) => outcomes.reduce((total, outcome) => total + outcome[name], 0);
  const latencies = outcomes.flatMap((outcome) => [...outcome.latencies]);
  return {
    perSecond: sum('units') / sum('elapsed'),
    p50: quantile(latencies, 0.5),
    p95: quantile(latencies, 0.95),
    p99: quantile(latencies, 0.99),
  };
}

function figuresOf({ latencies, units, elapsed }) {
  return { perSecond: units / elapsed, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
}

async function generate(url, load) {
  const child = fork(join(ROOT, 'bench/lib/load/generator.mjs'), { serialization: 'advanced' });
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
