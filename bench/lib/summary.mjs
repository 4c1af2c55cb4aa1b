import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from './root.mjs';

const RESULTS = join(ROOT, 'bench/results');

/** Keeps a result as results/NAME.json: median and range of each figure over the rounds, one line a row, and the goals. */
export async function writeSummary({ rows, ...result }, goals) {
  const summaries = rows.map(({ rounds, ...row }) => ({ ...row, rounds: rounds.length }));
  const lines = { goals, rows: summaries };
  const parts = Object.entries(lines).map(([name, list]) => {
    const items = list.map((item) => `    ${JSON.stringify(item)}`);
    return `  "${name}": [\n${items.join(',\n')}\n  ]`;
  });
  const head = JSON.stringify(result, null, 2).replace(/\n\}$/, '');
  await mkdir(RESULTS, { recursive: true });
  await writeFile(join(RESULTS, `${result.name}.json`), `${head},\n${parts.join(',\n')}\n}\n`);
}

/** The summary that was kept of a benchmark; null when there is none. */
export async function readSummary(name) {
  const content = await readFile(join(RESULTS, `${name}.json`), 'utf8').catch(() => null);
  return content === null ? null : JSON.parse(content);
}
