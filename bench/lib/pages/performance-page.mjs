import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { commitsSince } from '../machine.mjs';
import { barPlot, linePlot } from './plot.mjs';
import { ROOT } from '../root.mjs';
import { shown } from './stats.mjs';

/** Folder of the plots. */
export const PLOTS = 'docs/performance';

const PAGE = 'docs/performance.md';

const INTRODUCTION = `# Performance

Generated from \`bench/results\` by \`npm run bench -- page\`: do not edit. Each benchmark is one run on one machine. Its variants
alternate, so that other load on the machine affects all of them: compare the lines of a table with each other, not with those of
another machine. A figure is the median of the rounds, ± half the distance between the smallest and the largest. Bars in the
plots show the median, their whiskers the smallest and the largest round.

The service is the built one, as \`npm run start:prod\` starts it, on its embedded PostgreSQL with \`fsync\` and
\`synchronous_commit\` on. Peers use the same PostgreSQL with the same settings. The load generator, a separate process, and
PostgreSQL share the cores with what is measured.

A benchmark starts only when other processes use at most 5 % of the machine's CPU. Each section names the commit that was measured,
how many commits it was behind when this page was written, and what other processes used during the measurement.

To repeat: \`npm ci\`, then \`npm run bench -- all\` and \`npm run bench -- page\`, or a single benchmark, as each section says. See
[bench/README.md](../bench/README.md).`;

/**
 * The page and its plots.
 * @param results by name
 * @param notes as `readNotes` answers
 * @returns text by path
 */
export async function performancePage(results, notes) {
  const chapters = [];
  for (const file of (await readdir(join(ROOT, 'bench/benchmarks'))).toSorted()) {
    const result = results[file.replace(/\.mjs$/, '')];
    if (result === undefined) continue;
    const benchmark = await import(`../../benchmarks/${file}`);
    chapters.push({ result, plots: plotsOf(benchmark, result), age: await commitsSince(result.commit) });
  }
  const goals = chapters.flatMap(({ result: { name, title, goals: lines } }) =>
    lines.map((line) => ({ ...line, name, title })),
  );
  const newest = chapters
    .map(({ result }) => result)
    .toSorted((a, b) => (a.measuredAt < b.measuredAt ? 1 : -1))[0];
  const parts = [
    INTRODUCTION,
    ...machines(chapters),
    ...goalTable(goals),
    ...missedGoals(goals, notes),
    ...chapters.flatMap((chapter) => section(chapter, newest.commit)),
  ];
  const plots = chapters.flatMap((chapter) => chapter.plots);
  return {
    [PAGE]: `${parts.join('\n')}\n`,
    ...Object.fromEntries(plots.map(({ file, svg }) => [`${PLOTS}/${file}`, svg])),
  };
}

/** The page without the ages of its results, which grow with every commit. */
export function withoutAges(page) {
  return page.replaceAll(/(?<=\()(?:\d+ commits? behind|not in this history)(?=\))/g, '');
}

function plotsOf(benchmark, result) {
  const { name, title, rows } = result;
  const first = Object.keys(rows[0]?.figures ?? {})[0];
  const wanted = benchmark.plots ?? (first === undefined ? [] : [{ title, figure: first }]);
  return wanted.flatMap((plot, n) => {
    const shownRows = rows.filter((row) => plot.only?.(row) ?? true);
    const svg = plot.x === undefined ? barPlot(plot, shownRows) : linePlot(plot, shownRows);
    return svg === null ? [] : [{ title: plot.title, file: `${name}${n === 0 ? '' : `-${n + 1}`}.svg`, svg }];
  });
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

function missedGoals(goals, notes) {
  const missed = goals.filter(({ met }) => met === false);
  if (missed.length === 0) return [];
  const byReason = new Map();
  for (const line of missed) {
    const reason = notes.reasonOf(line.name, line.goal) ?? `The reason of \`${line.name}\` is not known.`;
    byReason.set(reason, [...(byReason.get(reason) ?? []), line]);
  }
  return [
    '',
    '## Why goals are missed',
    ...[...byReason].flatMap(([reason, lines]) => [
      '',
      ...lines.map(({ goal, target, measured }) => `- ${goal}: ${measured}; goal ${target}`),
      '',
      reason,
    ]),
  ];
}

function verdict(met) {
  if (met === null || met === undefined) return 'not measured';
  return met ? 'yes' : '**no**';
}

function section({ result, plots, age }, newestCommit) {
  const { title, about, rows } = result;
  const columns = [...new Set(rows.flatMap(({ figures }) => Object.keys(figures)))];
  const heads = columns.map((column) => {
    const known = rows.find(({ figures }) => figures[column] !== undefined).figures[column];
    const { title: head, unit } = known;
    return unit === '' || unit === '/s' || unit === undefined ? head : `${head}, ${unit}`;
  });
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
    ...(result.commit === newestCommit
      ? []
      : [`**Measured at another commit than the newest result (${newestCommit}).**`, '']),
    origin(result, age),
  ];
}

/** When, of what and under which conditions a result was measured. */
function origin(
  { name, commit, isDirty, measuredAt, seconds, variables = {}, machine, versions, rows },
  age,
) {
  const rounds = Math.max(0, ...rows.map((row) => row.rounds));
  const behind = age === null ? 'not in this history' : `${age} commit${age === 1 ? '' : 's'} behind`;
  const others = Object.entries(versions).filter(([key]) => key !== 'Node' && key !== 'PostgreSQL');
  const { loadBefore, loadAfter, othersCpuPercent, stolenPercent } = machine;
  const parts = [
    `Measured ${measuredAt.slice(0, 10)} at commit ${commit}${isDirty ? ' **with changes**' : ''} (${behind})`,
    `${rounds} round${rounds === 1 ? '' : 's'}, ${seconds} s each where a round has a length`,
    loadBefore === undefined
      ? '**other load not recorded**'
      : `load average ${loadBefore} before and ${loadAfter} after, other processes used ${othersCpuPercent} % of the CPU, ` +
        `${stolenPercent} % was stolen`,
    ...Object.entries(variables).map(([key, value]) =>
      key === 'BENCH_ANYWAY' ? '**on a machine that was not idle**' : `${key}=${value}`,
    ),
    ...others.map(([key, value]) => `${key} ${value}`),
  ];
  return `${parts.join('; ')}. Again: \`npm run bench -- ${name}\`.`;
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
