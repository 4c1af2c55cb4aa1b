import type { Schemas } from '@longshore/client';
import type { JsonObject } from '@longshore/common/json/json-value';
import { Option, type Command } from 'commander';
import { usageError } from '../cli-error.js';
import {
  callsService,
  integerOption,
  openSession,
  readPages,
  several,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { readInputs } from '../runs/inputs.js';
import { followGroup } from '../runs/follow-group.js';
import { GROUP_COLUMNS, groupDetails } from '../runs/group-view.js';
import { overlaid, readJobs, throwAt } from '../runs/job-file.js';
import { takesPatience } from '../runs/new-run.js';
import type { Answered, CallInit, Session } from '../service/session.js';
import { formatTable } from '../terminal/table.js';

type Group = Schemas['Group'];

/** `group ...` */
export function addGroups(program: Command, context: CliContext): void {
  const parent = program
    .command('group')
    .helpCommand(false)
    .description('groups: runs that depend on each other, and arrays of runs');
  addCreate(parent, context);
  addList(parent, context);
  addGet(parent, context);
  addWatch(parent, context);
  addCancel(parent, context);
  addRetry(parent, context);
}

function takesGroup(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).argument('<group>', 'id of the group');
}

interface CreateFlags extends ServiceFlags {
  readonly file: string;
  readonly input?: readonly string[];
  readonly dryRun?: true;
  readonly idempotencyKey?: string;
  readonly wait?: true;
  /** Seconds. */
  readonly patience: number;
}

function addCreate(parent: Command, context: CliContext): void {
  const command = parent
    .command('create')
    .description('create the runs of a group, all or none, and print its id')
    .requiredOption('-f, --file <file>', 'a group in JSON or YAML, - for standard input')
    .option('-i, --input <name=value>', 'an input of the group: JSON, or else text', several)
    .addOption(
      new Option('--dry-run', 'show what the group would be, and create nothing').conflicts([
        'wait',
        'idempotencyKey',
      ]),
    )
    .option('--idempotency-key <key>', 'requests with the same key create one group (default: a new key)')
    .option('-w, --wait', 'follow the group; the exit code says how it ended');
  callsService(
    takesPatience(command),
    'group create -f pipeline.yaml --input day=2026-03-01 --wait',
    'group create -f sweep.json --dry-run',
  ).action(async (flags: CreateFlags) => {
    const [job, ...others] = await readJobs(flags.file, context.stdin);
    if (job === undefined || others.length > 0) throw usageError(`${flags.file} must hold one group`);
    const { input, dryRun } = flags;
    const inputs = input === undefined ? {} : { inputs: await readInputs({ input }, context) };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service says what is wrong with it
    const body = overlaid(job.value, inputs) as JsonObject & Schemas['GroupCreate'];
    const session = await openSession(flags, context);
    const { output } = context;
    const params = dryRun
      ? { query: { dry_run: true } }
      : { header: { 'Idempotency-Key': flags.idempotencyKey ?? session.newKey() } };
    const { data: group, response } = await session
      .answer((init) => session.client.POST('/groups', { params, body, ...init }))
      .catch((error: unknown) => throwAt(job, error, output));
    output.warnings(response, (text) => `${job.placeOf(text)}: ${text}`);
    if (dryRun) await print(group, flags, context);
    else if (flags.wait) {
      if (!flags.json) output.note(`group ${group.id}`);
      context.end(await followGroup(session, group.id, flags));
    } else await (flags.json ? output.json(group) : output.line(group.id));
  });
}

interface ListFlags extends ServiceFlags {
  readonly state?: Group['state'];
  readonly name?: string;
  readonly schedule?: string;
  readonly limit: number;
}

function addList(parent: Command, context: CliContext): void {
  const command = parent
    .command('list')
    .description('list groups, the newest first')
    .addOption(
      new Option('-s, --state <state>', 'groups in this state').choices([
        'open',
        'completed',
        'failed',
        'cancelled',
      ]),
    )
    .option('--name <name>', 'groups with this name')
    .option('--schedule <id>', 'groups that the schedule made')
    .addOption(integerOption('-n, --limit <n>', 'so many at most', 1, 100_000).default(20));
  callsService(command, 'group list --state open', 'group list --name sweep -n 100').action(
    async ({ json, state, name, schedule, limit, ...flags }: ListFlags) => {
      const session = await openSession(flags, context);
      const { output } = context;
      const filters = { ...(state && { state }), ...(name && { name }), ...(schedule && { schedule }) };
      const groups: Group[] = [];
      const pages = readPages<Group>(session, {
        page: (client, { params, ...init }) =>
          client.GET('/groups', { params: { query: { ...filters, ...params.query } }, ...init }),
        cursorOf: ({ id }) => id,
        pageSize: Math.min(limit, 100),
      });
      for await (const page of pages) {
        groups.push(...page);
        if (groups.length >= limit) break;
      }
      const listed = groups.slice(0, limit);
      if (json) await output.json(...listed);
      else if (listed.length === 0) output.note('no groups');
      else await output.write(formatTable(GROUP_COLUMNS, listed, output));
    },
  );
}

function addGet(parent: Command, context: CliContext): void {
  const command = takesGroup(
    parent,
    'get',
    'show a group: how many runs are in which state, which failed, what it waits for',
  );
  callsService(command, 'group get $GROUP').action(async (id: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { id } };
    const group = await session.ask((init) => session.client.GET('/groups/{id}', { params, ...init }));
    await print(group, flags, context);
  });
}

function addWatch(parent: Command, context: CliContext): void {
  const command = takesPatience(
    takesGroup(parent, 'watch', 'follow a group to its end; the exit code says how it ended'),
  );
  callsService(command, 'group watch $GROUP').action(
    async (id: string, flags: ServiceFlags & { readonly patience: number }) => {
      context.end(await followGroup(await openSession(flags, context), id, flags));
    },
  );
}

function addCancel(parent: Command, context: CliContext): void {
  const command = takesGroup(parent, 'cancel', 'cancel the runs of a group that have not ended').option(
    '--reason <text>',
    'why, 500 characters at most; shown with the runs',
  );
  callsService(command, 'group cancel $GROUP --reason "the input was wrong"').action(
    (id: string, flags: ServiceFlags & { readonly reason?: string }) => {
      const body = flags.reason === undefined ? {} : { reason: flags.reason };
      return change(id, flags, context, (session, init) =>
        session.client.POST('/groups/{id}/cancel', { body, ...init }),
      );
    },
  );
}

function addRetry(parent: Command, context: CliContext): void {
  const command = takesGroup(
    parent,
    'retry',
    'give what failed another attempt, with what that had cancelled; what is completed stays',
  ).option('--all', 'all runs, also completed ones');
  callsService(command, 'group retry $GROUP').action(
    (id: string, flags: ServiceFlags & { readonly all?: true }) => {
      const body = { only: flags.all ? ('all' as const) : ('failed' as const) };
      return change(id, flags, context, (session, init) =>
        session.client.POST('/groups/{id}/retry', { body, ...init }),
      );
    },
  );
}

interface ChangeInit extends CallInit {
  readonly params: { readonly path: { readonly id: string } };
}

async function change(
  id: string,
  flags: ServiceFlags,
  context: CliContext,
  call: (session: Session, init: ChangeInit) => Promise<Answered<Group>>,
): Promise<void> {
  const session = await openSession(flags, context);
  const group = await session.askOnce((init) => call(session, { params: { path: { id } }, ...init }));
  await (flags.json ? context.output.json(group) : context.output.line(`${id} ${group.state}`));
}

function print(group: Group, { json }: ServiceFlags, { output }: CliContext): Promise<void> {
  return json ? output.json(group) : output.write(groupDetails(group, output.colours));
}
