/* oxlint-disable no-console -- a command for the terminal */
// `npm run bench -- NAME | all | page`: measures, prints, and keeps results/NAME.json; `page` writes docs/performance.md.
import { readdir, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { buildIfNeeded } from '../scripts/build-if-needed.mjs';
import { writePage } from './lib/page.mjs';
import { ROOT } from './lib/root.mjs';
import { middleOf, shown } from './lib/stats.mjs';

const SECONDS = Number(process.env.BENCH_SECONDS ?? 8);

const names = (await readdir(join(ROOT, 'bench/benchmarks')))
  .map((file) => file.replace(/\.mjs$/, ''))
  .toSorted();
const [wanted] = process.argv.slice(2);
if (wanted === 'page') {
  await writePage(names);
} else if (wanted === 'all' || names.includes(wanted)) {
  if (!process.env.BENCH_DIST) await buildIfNeeded();
  for (const name of wanted === 'all' ? names : [wanted]) await run(name);
} else {
  console.error(`usage: npm run bench -- NAME | all | page, where NAME is one of ${names.join(', ')}`);
  process.exitCode = 2;
}

async function run(name) {
  const { title, about, measure } = await import(`./benchmarks/${name}.mjs`);
  console.log(`${title}\n${about}\n`);
  const measured = await measure({ seconds: SECONDS });
  const rows = measured.map(({ label, rounds }) => ({
    label,
    rounds,
    perSecond: middleOf(rounds.map(({ perSecond }) => perSecond)),
    p50: middleOf(rounds.map(({ p50 }) => p50)),
    p99: middleOf(rounds.map(({ p99 }) => p99)),
  }));
  for (const { label, perSecond, p50, p99 } of rows) {
    console.log(
      `${label.padEnd(28)} ${shown(perSecond.median).padStart(8)}/s ± ${shown(perSecond.spread / 2).padEnd(8)} p50 ${shown(p50.median)} ms  p99 ${shown(p99.median)} ms`,
    );
  }
  const machine = {
    cpus: cpus().length,
    model: cpus()[0]?.model ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: release(),
    node: process.version,
  };
  const file = join(ROOT, 'bench/results', `${name}.json`);
  const result = {
    name,
    title,
    about,
    measuredAt: new Date().toISOString(),
    seconds: SECONDS,
    machine,
    rows,
  };
  await writeFile(file, `${JSON.stringify(result, null, 2)}\n`);
}
