import type { Schemas } from '@longshore/client';
import { oneLine } from '@longshore/common/shown-text';
import type { Command } from 'commander';
import { EXIT, usageError } from '../cli-error.js';
import {
  callsService,
  integer,
  integerOption,
  openSession,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { labelChanges } from '../runs/inputs.js';
import { readFilters, withRunFilters, type FilterFlags } from '../runs/run-filters.js';
import { RUN_COLUMNS } from '../runs/run-view.js';
import type { Session } from '../service/session.js';
import { formatTable } from '../terminal/table.js';

const POLL_MS = 500;
const MOST_RUNS = 100_000;
const PARTICIPLES = {
  cancel: 'cancelled',
  retry: 'retried',
  labels: 'labelled',
  priority: 'given the priority',
} as const;

interface BulkFlags extends ServiceFlags, FilterFlags {
  readonly all?: true;
  readonly dryRun?: true;
  readonly expect?: number;
  readonly reason?: string;
  readonly detach?: true;
}

type Operation = Schemas['BulkOperation'];
type Change = Pick<Schemas['BulkOperationCreate'], 'action' | 'value'>;

/** `bulk ...` */
export function addBulk(program: Command, context: CliContext): void {
  const parent = program
    .command('bulk')
    .helpCommand(false)
    .description('all runs that filters match: cancel, retry, label them; show and stop such an operation');
  changes(
    parent.command('cancel').description('cancel runs'),
    'bulk cancel -s PENDING -l team=vision',
  ).action((flags: BulkFlags) => change({ action: 'cancel' }, flags, context));
  changes(
    parent
      .command('retry')
      .description('give runs another attempt: failed and cancelled ones, unless --state names others'),
    'bulk retry --cause oom --since 2h',
  ).action((flags: BulkFlags) => change({ action: 'retry' }, flags, context));
  changes(
    parent
      .command('label')
      .description('set labels of runs by key=value, and remove them by key-')
      .argument('<labels...>', 'labels to set or remove'),
    'bulk label stage=done draft- --name nightly',
  ).action((words: string[], flags: BulkFlags) =>
    change({ action: 'labels', value: labelChanges(words) }, flags, context),
  );
  changes(
    parent
      .command('priority')
      .description('set the priority of runs; admins')
      .argument('<n>', 'higher is scheduled first', integer(-(2 ** 31), 2 ** 31 - 1)),
    'bulk priority 5 -s PENDING -d words',
  ).action((value: number, flags: BulkFlags) => change({ action: 'priority', value }, flags, context));
  const show = parent
    .command('show')
    .description('show an operation')
    .argument('<id>', 'id of the operation');
  callsService(show, 'bulk show $OPERATION').action(async (id: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    await print(await read(session, id), flags, context);
  });
  const stop = parent
    .command('stop')
    .description('stop an operation')
    .argument('<id>', 'id of the operation');
  callsService(stop, 'bulk stop $OPERATION').action(async (id: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { id } };
    const stopped = await session.ask((init) =>
      session.client.POST('/bulk-operations/{id}/stop', { params, ...init }),
    );
    await print(stopped, flags, context);
  });
}

/** Adds the flags of a change. @param example a command line without the program */
function changes(command: Command, example: string): Command {
  return callsService(
    withRunFilters(command)
      .option('--all', 'all runs: needed without a filter')
      .option('--dry-run', 'change nothing, show which runs match')
      .addOption(integerOption('--expect <n>', 'so many runs match, else nothing is changed', 0, MOST_RUNS))
      .option('--reason <text>', 'why, 500 characters at most')
      .option('--detach', 'print the id of the operation and do not wait for its end'),
    `${example} --dry-run`,
    `${example} --expect 12`,
  );
}

async function change({ action, value }: Change, flags: BulkFlags, context: CliContext): Promise<void> {
  const { all, dryRun, expect, reason, detach, json } = flags;
  const { output } = context;
  if (dryRun === undefined && expect === undefined)
    throw usageError('give --dry-run to see which runs match, then --expect with their number');
  const session = await openSession(flags, context);
  const body = {
    action,
    filter: await readFilters(flags, session),
    ...(value === undefined ? {} : { value }),
    ...(all === undefined ? {} : { all }),
    ...(dryRun === undefined ? {} : { dry_run: dryRun }),
    ...(expect === undefined ? {} : { expect }),
    ...(reason === undefined ? {} : { reason }),
  };
  const params = { header: { 'Idempotency-Key': session.newKey() } };
  const answer = await session.ask((init) =>
    session.client.POST('/bulk-operations', { params, body, ...init }),
  );
  if ('runs' in answer) {
    if (json) return output.json(answer);
    if (answer.runs.length > 0) await output.write(formatTable(RUN_COLUMNS, answer.runs, output));
    const states = statesOf(answer.by_state);
    return output.note(`${countRuns(answer.matched)} match${states}; nothing was changed`);
  }
  const { id, matched } = answer;
  if (detach) return json ? output.json(answer) : output.line(id);
  output.note(`${countRuns(matched)} match; operation ${id} goes on if this command ends`);
  let operation = await read(session, id);
  while (operation.state === 'running') {
    await session.pause(POLL_MS);
    operation = await read(session, id);
  }
  await print(operation, flags, context);
  if (operation.done < matched) context.end(EXIT.failed);
}

function read(session: Session, id: string): Promise<Operation> {
  const params = { path: { id } };
  return session.ask((init) => session.client.GET('/bulk-operations/{id}', { params, ...init }));
}

async function print(operation: Operation, { json }: ServiceFlags, { output }: CliContext): Promise<void> {
  const { action, state, matched, done, refused, remaining } = operation;
  if (json) return output.json(operation);
  const parts = [
    `${done} of ${countRuns(matched)} ${PARTICIPLES[action]}`,
    ...(matched - done - remaining > 0 ? [`${matched - done - remaining} refused`] : []),
    ...(remaining > 0 ? [`${remaining} ${state === 'stopped' ? 'left as they are' : 'to do'}`] : []),
  ];
  await output.line(`${state}: ${parts.join(', ')}`);
  for (const { id, detail } of refused) output.note(`${id} not ${PARTICIPLES[action]}: ${oneLine(detail)}`);
}

/** How many are in each state, such as ` (2 FAILED, 1 CANCELLED)`; nothing where there are none. */
function statesOf(byState: Readonly<Record<string, number>>): string {
  const counts = Object.entries(byState).filter(([, count]) => count > 0);
  return counts.length === 0 ? '' : ` (${counts.map(([state, count]) => `${count} ${state}`).join(', ')})`;
}

function countRuns(count: number): string {
  return `${count} ${count === 1 ? 'run' : 'runs'}`;
}
