import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rowOf } from './figures.mjs';
import { fitLine, simulateJournal } from './group-commit.mjs';
import { ROOT } from './root.mjs';
import { shown } from './stats.mjs';

const PAGE = join(ROOT, 'docs/scaling.md');
const BLOCK = /(<!-- calculated: begin -->\n)[\s\S]*(<!-- calculated: end -->)/;

/** Planned use of a core; the rest is for peaks. */
const PLANNED = 0.7;
const RUNS_A_SECOND = [100, 500, 1000, 2000, 5000, 10_000];
const WORKERS = [1000, 10_000, 100_000];
const HEARTBEAT_S = 20;
const COMMANDS_A_RUN = 4;
const DAY_S = 86_400;
const GB = 1e9;

/** Writes what docs/scaling.md calculates from the rows of the benchmark `costs`. The same rows give the same text. */
export async function writeScaling(rows) {
  const page = await readFile(PAGE, 'utf8');
  const text = [...journalPart(rows), ...runsPart(rows), ...workersPart(rows)].join('\n');
  await writeFile(
    PAGE,
    page.replace(BLOCK, (_, begin, end) => `${begin}\n${text}\n\n${end}`),
  );
}

function journalPart(rows) {
  const sized = rows.filter(({ label, figures }) => /^lifecycle, \d/.test(label) && figures.commitMs);
  const { at0: fixedMs, slope: eachMs } = fitLine(
    sized.map(({ figures }) => [figures.groupSize.median, figures.commitMs.median]),
  );
  const limit = 1000 / ((fixedMs + 200 * eachMs) / 200) / COMMANDS_A_RUN;
  const loads = [0.25, 0.5, 0.75, 0.9].map((part) => {
    const runs = part * limit;
    return { runs, ...simulateJournal({ perSecond: runs * COMMANDS_A_RUN, fixedMs, eachMs }) };
  });
  return [
    '### One journal',
    '',
    `A commit of n commands took ${shown(fixedMs)} ms + n × ${shown(eachMs)} ms (a line through the commits of 1 to 256 clients, while ` +
      'the load generator and the server shared two cores with PostgreSQL). With groups of up to 200 that is at most ' +
      `${shown(limit)} runs a second through one journal; simulated with commands at random times:`,
    '',
    '| runs a second | journal in use | a command, p50 ms | p99 ms |',
    '| ---: | ---: | ---: | ---: |',
    ...loads.map(
      ({ runs, used, p50, p99 }) =>
        `| ${shown(runs)} | ${shown(used * 100)} % | ${shown(p50)} | ${shown(p99)} |`,
    ),
  ];
}

function runsPart(rows) {
  const single = rowOf(rows, 'lifecycle, 256 clients').figures;
  const bulk = rowOf(rows, 'lifecycle, bulk calls, 4 clients').figures;
  const cores = (rate, us) => shown((rate * us) / 1e6 / PLANNED);
  return [
    '',
    '### Runs',
    '',
    `Cores of this machine's kind at a planned use of ${PLANNED * 100} %, with single calls and with bulk calls.`,
    '',
    '| runs a second | server cores | with bulk calls | PostgreSQL cores | with bulk calls | WAL MB/s | disk GB a day |',
    '| ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...RUNS_A_SECOND.map((rate) =>
      [
        rate.toLocaleString('en-US'),
        cores(rate, single.cpuUs.median),
        cores(rate, bulk.cpuUs.median),
        cores(rate, single.databaseUs.median),
        cores(rate, bulk.databaseUs.median),
        shown((rate * single.walBytes.median) / 1e6),
        shown((rate * DAY_S * single.diskBytes.median) / GB),
      ].join(' | '),
    ).map((line) => `| ${line} |`),
  ];
}

function workersPart(rows) {
  const memory = rowOf(rows, 'heartbeat, memory pool').figures;
  const shared = rowOf(rows, 'heartbeat, shared pool').figures;
  return [
    '',
    '### Workers',
    '',
    `One heartbeat per worker every ${HEARTBEAT_S} s. Use of one core:`,
    '',
    '| workers | heartbeats a second | server, memory pool | server, shared pool | PostgreSQL, shared pool |',
    '| ---: | ---: | ---: | ---: | ---: |',
    ...WORKERS.map((count) => {
      const rate = count / HEARTBEAT_S;
      const cells = [
        count.toLocaleString('en-US'),
        shown(rate),
        partOfACore(rate, memory.cpuUs.median),
        partOfACore(rate, shared.cpuUs.median),
        partOfACore(rate, shared.databaseUs.median),
      ];
      return `| ${cells.join(' | ')} |`;
    }),
  ];
}

function partOfACore(rate, us) {
  return `${shown((rate * us) / 1e4)} %`;
}
