import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { formatted } from '../../../scripts/formatted.mjs';
import { fillFigures, hasFigures } from './figure-marks.mjs';
import { readNotes } from './notes.mjs';
import { performancePage, PLOTS } from './performance-page.mjs';
import { ROOT } from '../root.mjs';
import { scalingPage } from './scaling.mjs';
import { readResults } from './summary.mjs';

/** Folders and files in which pages with figures are. */
const PAGES = ['README.md', 'bench', 'docs', 'docs/adr'];

/**
 * Everything that is generated from bench/results and docs/adr/results: docs/performance.md with its plots,
 * docs/scaling.md, and the figures in all other pages. The same results give the same text, except for the ages in
 * docs/performance.md.
 * @returns text by path, relative to the repository
 */
export async function pageFiles() {
  const results = await readResults();
  const files = {};
  for (const path of await markdownFiles()) {
    const text = await readFile(join(ROOT, path), 'utf8');
    if (!hasFigures(text)) continue;
    files[path] = await formatted(path, fillFigures(text, results));
  }
  const current = async (path) => files[path] ?? (await readFile(join(ROOT, path), 'utf8'));
  Object.assign(files, await performancePage(results, readNotes(await current('bench/notes.md'))));
  files['docs/scaling.md'] = scalingPage(await current('docs/scaling.md'), results);
  return files;
}

/** Writes `pageFiles` and removes plots that are no longer shown. */
export async function writePages() {
  const files = await pageFiles();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(ROOT, dirname(path)), { recursive: true });
    await writeFile(join(ROOT, path), text);
  }
  for (const file of await readdir(join(ROOT, PLOTS))) {
    if (file.endsWith('.svg') && !(`${PLOTS}/${file}` in files)) await rm(join(ROOT, PLOTS, file));
  }
}

async function markdownFiles() {
  const found = [];
  for (const path of PAGES) {
    if (path.endsWith('.md')) found.push(path);
    else {
      const names = await readdir(join(ROOT, path));
      found.push(...names.filter((name) => name.endsWith('.md')).map((name) => `${path}/${name}`));
    }
  }
  return found.filter((path) => path !== 'docs/performance.md').toSorted();
}
