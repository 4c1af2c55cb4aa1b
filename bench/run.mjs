/* oxlint-disable no-console -- a command for the terminal */
// `npm run bench -- NAME ... | all | page`: measures, prints, and keeps results/NAME.json; `page` writes docs/performance.md.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildIfNeeded } from '../scripts/build-if-needed.mjs';
import { withFigures } from './lib/figures.mjs';
import { installPeers } from './lib/install.mjs';
import { stopLeftovers } from './lib/leftovers.mjs';
import { describeMachine, describeVersions } from './lib/machine.mjs';
import { writePage } from './lib/page.mjs';
import { ROOT } from './lib/root.mjs';
import { writeSummary } from './lib/summary.mjs';
import { printResult } from './lib/terminal.mjs';

/** Seconds of one round; everything else scales with it. */
const SECONDS = Number(process.env.BENCH_SECONDS ?? 8);

const names = (await readdir(join(ROOT, 'bench/benchmarks')))
  .filter((file) => file.endsWith('.mjs'))
  .map((file) => file.replace(/\.mjs$/, ''))
  .toSorted();
const wanted = process.argv.slice(2);
if (wanted.length === 1 && wanted[0] === 'page') {
  await writePage(names);
} else if (
  !(SECONDS > 0) ||
  wanted.length === 0 ||
  !wanted.every((name) => name === 'all' || names.includes(name))
) {
  console.error(
    `usage: [BENCH_SECONDS=8] npm run bench -- NAME ... | all | page, where NAME is one of ${names.join(', ')}`,
  );
  process.exitCode = 2;
} else {
  if (!process.env.BENCH_DIST) await buildIfNeeded();
  const chosen = wanted.includes('all') ? names : wanted;
  if (chosen.length === 1) await measureHere(chosen[0]);
  else await measureEach(chosen);
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
  const rows = (await measure({ seconds: SECONDS })).map((row) => withFigures(row, figures));
  const result = {
    name,
    title,
    about,
    measuredAt: new Date().toISOString(),
    seconds: SECONDS,
    machine: describeMachine(),
    versions: await describeVersions(benchmark),
    rows,
  };
  const goals = benchmark.goals?.(rows) ?? [];
  printResult(result, goals);
  await writeSummary(result, goals);
}
