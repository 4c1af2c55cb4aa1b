import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readSummary } from './summary.mjs';
import { barPlot, linePlot } from './plot.mjs';
import { ROOT } from './root.mjs';
import { writeScaling } from './scaling.mjs';
import { shown } from './stats.mjs';

const PLOTS = join(ROOT, 'docs/performance');

/** Written by hand: why goals are missed. */
const NOTES = join(ROOT, 'bench/notes.md');

const INTRODUCTION = `# Performance

Generated from \`bench/results\` by \`npm run bench -- page\`: do not edit. Each benchmark is one run on one machine. Its variants
alternate, so that other load on the machine affects all of them: compare the lines of a table with each other, not with those of
another machine. A figure is the median of the rounds, ± half the distance between the smallest and the largest. Bars in the
plots show the median, their whiskers the smallest and the largest round.

The service is the built one, as \`npm run start:prod\` starts it, on its embedded PostgreSQL with \`fsync\` and
\`synchronous_commit\` on. Peers use the same PostgreSQL with the same settings. The load generator, a separate process, and
PostgreSQL share the cores with what is measured.

To repeat: \`npm ci\`, then \`npm run bench -- all\` and \`npm run bench -- page\`, or a single benchmark, as each section says. See
[bench/README.md](../bench/README.md).`;

/**
 * Writes docs/performance.md, and the plots that it shows, from the results that are there. The same results give the
 * same page.
 * @param names of the benchmarks, in the order of the page
 */
export async function writePage(names) {
  const chapters = [];
  for (const name of names) {
    const result = await readSummary(name);
    if (result !== null) chapters.push({ benchmark: await import(`../benchmarks/${name}.mjs`), result });
  }
  const goals = chapters.flatMap(({ result: { name, title, goals: lines } }) =>
    lines.map((line) => ({ ...line, name, title })),
  );
  const plots = chapters.flatMap(plotsOf);
  await replacePlots(plots);
  const parts = [
    INTRODUCTION,
    ...machines(chapters),
    ...goalTable(goals),
    '',
    (await readFile(NOTES, 'utf8')).trimEnd(),
    ...chapters.flatMap(({ result }) =>
      section(
        result,
        plots.filter(({ name }) => name === result.name),
      ),
    ),
  ];
  await writeFile(join(ROOT, 'docs/performance.md'), `${parts.join('\n')}\n`);
  const costs = chapters.find(({ result }) => result.name === 'costs');
  if (costs) await writeScaling(costs.result.rows);
}

function plotsOf({ benchmark, result }) {
  const { name, title, rows } = result;
  const first = Object.keys(rows[0]?.figures ?? {})[0];
  const wanted = benchmark.plots ?? (first === undefined ? [] : [{ title, figure: first }]);
  return wanted.flatMap((plot, n) => {
    const shownRows = rows.filter((row) => plot.only?.(row) ?? true);
    const svg = plot.x === undefined ? barPlot(plot, shownRows) : linePlot(plot, shownRows);
    return svg === null
      ? []
      : [{ name, title: plot.title, file: `${name}${n === 0 ? '' : `-${n + 1}`}.svg`, svg }];
  });
}

async function replacePlots(plots) {
  await mkdir(PLOTS, { recursive: true });
  const wanted = new Set(plots.map(({ file }) => file));
  for (const file of await readdir(PLOTS)) {
    if (file.endsWith('.svg') && !wanted.has(file)) await rm(join(PLOTS, file));
  }
  for (const { file, svg } of plots) await writeFile(join(PLOTS, file), svg);
}

function machines(chapters) {
  const found = new Map();
  for (const { result } of chapters) {
    const text = machineText(result);
    found.set(text, [...(found.get(text) ?? []), result.name]);
  }
  if (found.size === 0) return ['', 'Nothing has been measured yet.'];
  return [
    '',
    '## What it was measured on',
    '',
    ...[...found].map(([text, names]) => (found.size === 1 ? text : `- ${names.join(', ')}: ${text}`)),
  ];
}

function machineText({ machine, versions = {} }) {
  const common = ['Node', 'PostgreSQL'].filter((name) => versions[name] !== undefined);
  return (
    `${machine.cpus} cores (${machine.model}), ${machine.memoryGb} GB of memory, ${machine.system}` +
    `${common.map((name) => `, ${name} ${versions[name]}`).join('')}.`
  );
}

function goalTable(goals) {
  if (goals.length === 0) return [];
  return [
    '',
    '## Goals',
    '',
    '| goal | target | measured | met | benchmark |',
    '| --- | --- | --- | --- | --- |',
    ...goals.map(
      ({ goal, target, measured, met, name, title }) =>
        `| ${cell(goal)} | ${cell(target)} | ${cell(measured ?? '-')} | ${verdict(met)} | [${name}](#${anchor(title)}) |`,
    ),
  ];
}

function verdict(met) {
  if (met === null || met === undefined) return 'not measured';
  return met ? 'yes' : '**no**';
}

function section({ name, title, about, measuredAt, seconds, versions = {}, rows }, plots) {
  const columns = [...new Set(rows.flatMap(({ figures }) => Object.keys(figures)))];
  const heads = columns.map((column) => {
    const known = rows.find(({ figures }) => figures[column] !== undefined).figures[column];
    const { title: head, unit } = known;
    return unit === '' || unit === '/s' || unit === undefined ? head : `${head}, ${unit}`;
  });
  const rounds = Math.max(0, ...rows.map((row) => row.rounds));
  const others = Object.entries(versions).filter(([key]) => key !== 'Node' && key !== 'PostgreSQL');
  return [
    '',
    `## ${title}`,
    '',
    about,
    '',
    ...plots.flatMap((plot) => [`![${plot.title}](performance/${plot.file})`, '']),
    `| | ${heads.map(cell).join(' | ')} |`,
    `| --- |${' ---: |'.repeat(columns.length)}`,
    ...rows.map(
      ({ label, note, figures }) =>
        `| ${cell(note === undefined ? label : `${label} (${note})`)} | ${columns.map((column) => figureCell(figures[column])).join(' | ')} |`,
    ),
    '',
    `Measured ${measuredAt.slice(0, 10)}, ${rounds} round${rounds === 1 ? '' : 's'}, ${seconds} s each where a round has a length` +
      `${others.map(([key, value]) => `; ${key} ${value}`).join('')}. Again: \`npm run bench -- ${name}\`.`,
  ];
}

function figureCell(figure) {
  if (figure === undefined || !Number.isFinite(figure.median)) return '-';
  return `${shown(figure.median)} ± ${shown(figure.spread / 2)}`;
}

function cell(content) {
  return String(content).replaceAll('|', '\\|').replaceAll('\n', ' ');
}

/** The anchor that a Markdown heading gets. */
function anchor(title) {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}
