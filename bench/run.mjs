/* oxlint-disable no-console -- a command for the terminal */
// `npm run bench -- NAME ... | all | page`: measures, prints, and keeps results/NAME.json, or docs/adr/results/NNN.json with `--adr NNN`; `page` writes the figures of all pages.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildIfNeeded } from '../scripts/build-if-needed.mjs';
import { makeDataFolder } from './lib/servers/data-folder.mjs';
import { withFigures } from './lib/pages/figures.mjs';
import { waitUntilIdle, watchOthers } from './lib/idleness.mjs';
import { installPeers } from './lib/servers/install.mjs';
import { stopLeftovers } from './lib/servers/leftovers.mjs';
import { describeCommit, describeMachine, describeVersions } from './lib/machine.mjs';
import { writePages } from './lib/pages/pages.mjs';
import { ROOT } from './lib/root.mjs';
import { writeAdrResult, writeSummary } from './lib/pages/summary.mjs';
import { printResult } from './lib/pages/terminal.mjs';

/** Seconds of one round; everything else scales with it. */
const SECONDS = Number(process.env.BENCH_SECONDS ?? 8);

/** Variables that change what is measured or how far it can be trusted. */
const VARIABLES = ['BENCH_ANYWAY', 'BENCH_BEFORE', 'BENCH_DIST', 'BENCH_REQUESTS', 'BENCH_SIZES'];

const names = (await readdir(join(ROOT, 'bench/benchmarks')))
  .filter((file) => file.endsWith('.mjs'))
  .map((file) => file.replace(/\.mjs$/, ''))
  .toSorted();
const {
  positionals: wanted,
  values: { adr },
} = parseArgs({ allowPositionals: true, options: { adr: { type: 'string' } } });
if (wanted.length === 1 && wanted[0] === 'page') {
  await writePages();
} else if (
  !(SECONDS > 0) ||
  wanted.length === 0 ||
  !wanted.every((name) => name === 'all' || names.includes(name)) ||
  (adr !== undefined && (!/^\d{3}$/.test(adr) || !(wanted.length === 1 && names.includes(wanted[0]))))
) {
  console.error(
    `usage: [BENCH_SECONDS=8] npm run bench -- NAME ... | NAME --adr NNN | all | page, where NAME is one of ${names.join(', ')}`,
  );
  process.exitCode = 2;
} else {
  if (!process.env.BENCH_DIST) await buildIfNeeded();
  const chosen = wanted.includes('all')
    ? names.filter((name) => name !== 'compare' || process.env.BENCH_BEFORE)
    : wanted;
  if (chosen.length === 1) await measureHere(chosen[0]);
  else await withSeeds(() => measureEach(chosen));
}

/** Keeps databases with millions of runs for the benchmarks that follow, unless BENCH_SEED_DIR keeps them anyway. */
async function withSeeds(action) {
  if (process.env.BENCH_SEED_DIR) return action();
  const folder = await makeDataFolder();
  process.env.BENCH_SEED_DIR = folder.path;
  try {
    return await action();
  } finally {
    await folder.remove();
  }
}

/** Each in a process of its own: one that fails, or leaves something behind, does not touch the others. */
async function measureEach(chosen) {
  const failed = [];
  let child;
  let interrupted = false;
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
      interrupted = true;
      child?.kill(signal);
    });
  }
  for (const name of chosen) {
    if (interrupted) break;
    child = spawn(process.execPath, [fileURLToPath(import.meta.url), name], { stdio: 'inherit' });
    const [code] = await once(child, 'exit');
    if (code !== 0) failed.push(name);
    console.log('');
  }
  if (failed.length > 0) console.error(`failed: ${failed.join(', ')}`);
  if (failed.length > 0 || interrupted) process.exitCode = 1;
}

async function measureHere(name) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
      stopLeftovers().then(
        () => process.exit(1),
        () => process.exit(1),
      );
    });
  }
  try {
    await run(name);
  } catch (error) {
    console.error(`${name} failed:`, error);
    process.exitCode = 1;
  } finally {
    await stopLeftovers();
  }
}

async function run(name) {
  const benchmark = await import(`./benchmarks/${name}.mjs`);
  const { title, about, figures, measure } = benchmark;
  console.log(`${title} (${name})\n${about}\n`);
  if (benchmark.needsPeers) await installPeers();
  await waitUntilIdle({ mayBeBusy: Boolean(process.env.BENCH_ANYWAY) });
  const began = performance.now();
  const measuredAt = new Date().toISOString();
  const commit = await describeCommit();
  const watch = await watchOthers();
  const rows = (await measure({ seconds: SECONDS })).map((row) => withFigures(row, figures));
  const result = {
    name,
    title,
    about,
    ...commit,
    measuredAt,
    tookSeconds: Math.round((performance.now() - began) / 1000),
    seconds: SECONDS,
    variables: variables(),
    machine: { ...describeMachine(), ...(await watch.end()) },
    versions: await describeVersions(benchmark),
    rows,
  };
  const goals = benchmark.goals?.(rows) ?? [];
  printResult(result, goals);
  if (adr === undefined) await writeSummary(result, goals);
  else await writeAdrResult(adr, result);
}

function variables() {
  const set = VARIABLES.filter((name) => process.env[name]);
  return Object.fromEntries(set.map((name) => [name, process.env[name]]));
}
