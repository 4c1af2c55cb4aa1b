import { rowOf } from './figures.mjs';
import { fitLine, simulateJournal } from '../servers/group-commit.mjs';
import { shown } from './stats.mjs';

const BLOCK = /(<!-- calculated: begin -->\n)[\s\S]*(<!-- calculated: end -->)/;

/** Planned use of a core; the rest is for peaks. */
const PLANNED = 0.7;
const RUNS_A_SECOND = [100, 500, 1000, 2000, 5000, 10_000];
/** The rate whose growth over a year the page calculates. */
const YEAR_RATE = 1000;
const WORKERS = [1000, 10_000, 100_000];
/** The worker program's interval at the default worker timeout; a claim adds one. */
const HEARTBEAT_S = 10;
const COMMANDS_A_RUN = 4;
const DAY_S = 86_400;
const GB = 1e9;
const TB = 1e12;

/**
 * docs/scaling.md with what is calculated from results; parts whose result is missing are left out.
 * @param page its present text
 * @param results by name
 */
export function scalingPage(page, { costs, processes, retention, scale }) {
  const parts = [
    ...(costs ? [...origin(costs), ...journalPart(costs.rows), ...runsPart(costs.rows)] : []),
    ...(costs ? [...yearPart(costs.rows), ...workersPart(costs.rows)] : []),
    ...(processes ? tablePart('More server processes', processes) : []),
    ...(scale ? tablePart('History', scale) : []),
    ...(retention ? tablePart('Retention', retention) : []),
  ];
  return page.replace(BLOCK, (_, begin, end) => `${begin}\n${parts.join('\n')}\n\n${end}`);
}

function origin({ commit, measuredAt, machine }) {
  return [
    `Calculated from the result of \`costs\` of ${measuredAt.slice(0, 10)}, commit ${commit}, on ${machine.cpus} cores ` +
      `(${machine.model}) that the load generator, the server and PostgreSQL shared.`,
    '',
  ];
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

/** What a constant rate stores. */
function yearPart(rows) {
  const { walBytes, diskBytes } = rowOf(rows, 'lifecycle, 256 clients').figures;
  const runs = YEAR_RATE * DAY_S;
  const line = (period, days) =>
    `| ${period} | ${((runs * days) / 1e9).toFixed(2)} | ${shown((runs * days * diskBytes.median) / TB)} | ` +
    `${shown((runs * days * walBytes.median) / TB)} |`;
  return [
    '',
    `### A year at ${YEAR_RATE.toLocaleString('en-US')} runs a second`,
    '',
    'Without a retention time the first column of bytes is what the database holds. With one, it holds the runs of that time, and ' +
      'retention must remove as many runs a second as are created.',
    '',
    '| period | billion runs | disk, TB | WAL, TB |',
    '| --- | ---: | ---: | ---: |',
    line('a day', 1),
    line('a month', 30),
    line('a year', 365),
  ];
}

/** Rates and latencies of a result, row by row. */
function tablePart(heading, { name, rows }) {
  const columns = ['perSecond', 'removedPerSecond', 'p50', 'p99'].filter((column) =>
    rows.some(({ figures }) => figures[column] !== undefined),
  );
  const titles = columns.map((column) => {
    const { title, unit } = rows.find(({ figures }) => figures[column] !== undefined).figures[column];
    return unit === '/s' ? title : `${title}, ${unit}`;
  });
  return [
    '',
    `### ${heading}`,
    '',
    `From the result of \`${name}\` ([performance.md](performance.md)); rates are a second:`,
    '',
    `| | ${titles.join(' | ')} |`,
    `| --- |${' ---: |'.repeat(columns.length)}`,
    ...rows.map(
      ({ label, figures }) =>
        `| ${label} | ${columns.map((column) => shown(figures[column]?.median)).join(' | ')} |`,
    ),
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
    '',
    `[Waiting claims](adr/011-waiting-claims.md) execute no statements. Each is an open socket: raise the limit of open files.`,
  ];
}

function partOfACore(rate, us) {
  return `${shown((rate * us) / 1e4)} %`;
}
