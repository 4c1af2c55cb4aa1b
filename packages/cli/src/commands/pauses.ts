import type { Schemas } from '@longshore/client';
import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import {
  callsService,
  openSession,
  several,
  time,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { formatTable, type Column } from '../terminal/table.js';

type Pause = Schemas['Pause'];

const COLUMNS: readonly Column<Pause>[] = [
  { title: 'NAME', text: ({ name }) => name },
  { title: 'RUNS', text: ({ where }) => describe(where), isElastic: true },
  { title: 'UNTIL', text: ({ until }) => until ?? '-' },
  { title: 'BY', text: ({ updated_by: by }) => by.key_name, isElastic: true },
  { title: 'REASON', text: ({ reason }) => reason, isElastic: true },
];

function describe({ all, ...lists }: Pause['where']): string {
  if (all === true) return 'all';
  return Object.entries(lists)
    .map(([name, values]) => `${name} ${values.join(' or ')}`)
    .join(', ');
}

interface SetFlags extends ServiceFlags {
  readonly all?: true;
  readonly definition?: string[];
  readonly label?: string[];
  readonly selector?: string[];
  readonly schedule?: string[];
  readonly createdBy?: string[];
  readonly reason: string;
  readonly until?: string;
}

/** `pause ...` */
export function addPauses(program: Command, context: CliContext): void {
  const parent = program
    .command('pause')
    .helpCommand(false)
    .description('pauses: hold back pending runs; to set and remove one needs a key with the scope admin');
  const list = parent.command('list', { isDefault: true }).description('list the pauses');
  callsService(list, 'pause list').action(async (flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const pauses = await session.ask((init) => session.client.GET('/pauses', { ...init }));
    const { output } = context;
    if (flags.json) await output.json(...pauses);
    else if (pauses.length === 0) output.note('no pauses');
    else await output.write(formatTable(COLUMNS, pauses, output));
  });
  addSet(parent, context);
  const remove = parent
    .command('rm')
    .description('end a pause: its runs can be assigned again')
    .argument('<name>', 'name of the pause');
  callsService(remove, 'pause rm move').action(async (name: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { name } };
    await session.ask((init) => session.client.DELETE('/pauses/{name}', { params, ...init }));
    if (!flags.json) await context.output.line(`${name} ended`);
  });
}

function addSet(parent: Command, context: CliContext): void {
  const command = parent
    .command('set')
    .description('pause the runs for which each kind of condition holds, or replace a pause')
    .argument('<name>', 'name of the pause')
    .option('--all', 'all runs')
    .option(
      '--definition <id>',
      'runs of this definition; this flag and the next four may be repeated: one value must hold',
      several,
    )
    .option('--label <key[=value]>', 'runs with this label', several)
    .option('--selector <tag>', 'runs that demand this tag of their worker', several)
    .option('--schedule <id>', 'runs of this schedule', several)
    .option('--created-by <key-id>', 'runs that this API key created', several)
    .requiredOption('--reason <text>', 'why, for those who ask why their runs wait')
    .option('--until <time>', 'when it ends by itself: a time, or a span such as 2h', time);
  callsService(
    command,
    'pause set move --all --reason "The data centre moves." --until 2h',
    'pause set gpus --selector gpu --label team=vision --reason "Driver update."',
  ).action(async (name: string, flags: SetFlags) => {
    const { all, definition, label, selector, schedule, createdBy, reason, until } = flags;
    const where = { all, definition, label, selector, schedule, created_by: createdBy };
    if (Object.values(where).every((one) => one === undefined)) throw usageError('give --all or a condition');
    const session = await openSession(flags, context);
    const params = { path: { name } };
    const body = { where, reason, ...(until !== undefined && { until }) };
    const { data, response } = await session.answer((init) =>
      session.client.PUT('/pauses/{name}', { params, body, ...init }),
    );
    const { output } = context;
    const done = response.status === 201 ? 'set' : 'replaced';
    await (flags.json ? output.json(data) : output.line(`${data.name} ${done}: ${describe(data.where)}`));
  });
}
