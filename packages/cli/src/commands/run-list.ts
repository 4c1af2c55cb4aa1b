import type { Schemas } from '@longshore/client';
import { composeJson } from '@longshore/common/json/json-text';
import { type Command, Option } from 'commander';
import {
  callsService,
  type CliContext,
  integerOption,
  openSession,
  type ServiceFlags,
} from '../command-kit.js';
import {
  comparableFields,
  csvLine,
  fieldText,
  pickFields,
  plainField,
  sortRuns,
} from '../runs/run-columns.js';
import { readFilters, withRunFilters, type FilterFlags } from '../runs/run-filters.js';
import { readRunId, RUN_WORDS } from '../runs/run-ids.js';
import { RUN_COLUMNS } from '../runs/run-view.js';
import { tags } from '../runs/option-flags.js';
import type { Session } from '../service/session.js';
import { STATE_COLOURS } from '../terminal/style.js';
import { type Column, formatTable } from '../terminal/table.js';

type Run = Schemas['OpRun'];

const PAGE = 100;
/** Columns of CSV without `--columns`. */
const CSV_COLUMNS = ['id', 'state', 'progress', 'attempt', 'created', 'name', 'definition', 'image'];

interface ListFlags extends ServiceFlags, FilterFlags {
  readonly limit: number;
  readonly all?: true;
  readonly columns?: readonly string[];
  readonly sort?: string;
  readonly format: 'table' | 'csv' | 'json';
}

/** `run list` and `run diff` */
export function addRunLists(parent: Command, context: CliContext): void {
  addList(parent, context);
  addDiff(parent, context);
}

function addList(parent: Command, context: CliContext): void {
  const command = parent.command('list').description('list runs, newest first');
  withRunFilters(command)
    .addOption(integerOption('-n, --limit <n>', 'so many at most', 1, 1_000_000).default(20))
    .option('--all', 'all of them')
    .option(
      '--columns <names>',
      'fields of runs, such as name,state,inputs.lr,outputs.loss,labels.team,cause',
      tags,
    )
    .option('--sort <name>', 'sorts what is listed by a field; -NAME: the largest first')
    .addOption(
      new Option('--format <format>', 'how it is printed').choices(['table', 'csv', 'json']).default('table'),
    );
  callsService(
    command,
    'run list --state FAILED --since 24h',
    'run list -l team=vision --cause oom',
    'run list -l sweep=7 --columns name,inputs.lr,outputs.loss --sort outputs.loss',
    'run list -l sweep=7 --all --columns name,inputs.lr,outputs.loss --format csv',
    'run list --all --json',
  ).action(async (flags: ListFlags) => {
    const session = await openSession(flags, context);
    await printList(session, flags);
  });
}

async function printList(session: Session, flags: ListFlags): Promise<void> {
  const { output } = session;
  const { columns, sort } = flags;
  const format = flags.json ? 'json' : flags.format;
  const print = async (runs: readonly Run[]): Promise<void> => {
    if (format === 'json')
      await output.json(...(columns === undefined ? runs : runs.map((run) => pickFields(run, columns))));
    else if (format === 'csv') {
      const names = columns ?? CSV_COLUMNS;
      await output.write(runs.map((run) => csvLine(names.map((name) => fieldText(run, name)))).join(''));
    } else if (runs.length === 0) output.note('no runs');
    else await output.write(formatTable(columns?.map(columnOf) ?? RUN_COLUMNS, runs, output));
  };
  if (format === 'csv')
    await output.write(csvLine((columns ?? CSV_COLUMNS).map((name) => JSON.stringify(name))));
  const isWhole = sort !== undefined || format === 'table';
  const listed: Run[] = [];
  let hasMore = false;
  for await (const page of readPages(session, flags)) {
    ({ has_more: hasMore } = page);
    if (isWhole) listed.push(...page.data);
    else await print(page.data);
  }
  if (!isWhole) return;
  await print(sort === undefined ? listed : sortRuns(listed, sort));
  if (sort !== undefined && hasMore)
    output.note(`sorted within the newest ${listed.length} runs that match: --limit or --all lists more`);
}

async function* readPages(session: Session, flags: ListFlags): AsyncGenerator<Schemas['OpRunList']> {
  const filters = { include_events: false, ...(await readFilters(flags, session)) };
  let left = flags.all ? Number.POSITIVE_INFINITY : flags.limit;
  for (let last: string | undefined; left > 0;) {
    const query = {
      ...filters,
      limit: Math.min(left, PAGE),
      ...(last === undefined ? {} : { starting_after: last }),
    };
    const page = await session.ask((init) => session.client.GET('/runs', { params: { query }, ...init }));
    yield page;
    left -= page.data.length;
    last = page.data.at(-1)?.id;
    if (!page.has_more || last === undefined) return;
  }
}

function columnOf(name: string): Column<Run> {
  return {
    title: name.toUpperCase(),
    text: (run) => plainField(run, name) || '-',
    isElastic: !['id', 'state'].includes(name),
    ...(name === 'state' ? { colour: ({ state }: Run) => STATE_COLOURS[state] } : {}),
  };
}

interface Difference {
  readonly field: string;
  readonly a: string | undefined;
  readonly b: string | undefined;
}

const DIFF_COLUMNS: readonly Column<Difference>[] = [
  { title: 'FIELD', text: ({ field }) => field },
  { title: 'A', text: ({ a }) => a ?? '-', isElastic: true },
  { title: 'B', text: ({ b }) => b ?? '-', isElastic: true },
];

function toJson({ field, a = 'null', b = 'null' }: Difference): object {
  return composeJson([
    ['field', JSON.stringify(field)],
    ['a', a],
    ['b', b],
  ]);
}

function addDiff(parent: Command, context: CliContext): void {
  const command = parent
    .command('diff')
    .description('show in what two runs differ: image, inputs, options, outputs, cause')
    .argument('<run>', RUN_WORDS)
    .argument('<other>', 'the other run');
  callsService(command, 'run diff $RUN @last').action(async (a: string, b: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const read = async (word: string): Promise<ReadonlyMap<string, string>> => {
      const params = {
        path: { id: await readRunId(session, word, context.env) },
        query: { include_events: false },
      };
      return comparableFields(
        await session.ask((init) => session.client.GET('/runs/{id}', { params, ...init })),
      );
    };
    const [fieldsOfA, fieldsOfB] = [await read(a), await read(b)];
    const differences = [...new Set([...fieldsOfA.keys(), ...fieldsOfB.keys()])].flatMap((field) => {
      const difference = { field, a: fieldsOfA.get(field), b: fieldsOfB.get(field) };
      return difference.a === difference.b ? [] : [difference];
    });
    const { output } = context;
    if (flags.json) await output.json(...differences.map(toJson));
    else if (differences.length === 0) output.note('no differences');
    else await output.write(formatTable(DIFF_COLUMNS, differences, output));
  });
}
