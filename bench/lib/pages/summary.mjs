import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../root.mjs';

const RESULTS = 'bench/results';
const ADR_RESULTS = 'docs/adr/results';

/** Keeps a result as bench/results/NAME.json: median and range of each figure over the rounds, and the goals. */
export function writeSummary(result, goals) {
  return write(`${RESULTS}/${result.name}.json`, { ...result, goals });
}

/** Keeps a result beside the decision that it supports, as docs/adr/results/NNN.json. */
export function writeAdrResult(number, result) {
  return write(`${ADR_RESULTS}/${number}.json`, result);
}

/** All results that were kept, by name: those of benchmarks, and those of decisions as `adr/NNN`. */
export async function readResults() {
  return { ...(await readFolder(RESULTS, '')), ...(await readFolder(ADR_RESULTS, 'adr/')) };
}

async function readFolder(folder, prefix) {
  const results = {};
  const files = await readdir(join(ROOT, folder)).catch(() => []);
  for (const file of files.filter((name) => name.endsWith('.json')).toSorted()) {
    const result = JSON.parse(await readFile(join(ROOT, folder, file), 'utf8'));
    results[`${prefix}${file.replace(/\.json$/, '')}`] = {
      commit: 'unknown',
      rows: [],
      goals: [],
      ...result,
    };
  }
  return results;
}

/** One line a row and goal, so that changes can be read. */
async function write(path, { rows, goals, ...result }) {
  const lists = { goals, rows: rows.map(({ rounds, ...row }) => ({ ...row, rounds: rounds.length })) };
  const parts = Object.entries(lists)
    .filter(([, list]) => list !== undefined)
    .map(([name, list]) => {
      const items = list.map((item) => `    ${JSON.stringify(item)}`);
      return `  "${name}": [\n${items.join(',\n')}\n  ]`;
    });
  const head = JSON.stringify(result, null, 2).replace(/\n\}$/, '');
  await mkdir(join(ROOT, path, '..'), { recursive: true });
  await writeFile(join(ROOT, path), `${head},\n${parts.join(',\n')}\n}\n`);
}
