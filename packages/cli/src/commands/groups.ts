import type { Schemas } from '@longshore/client';
import type { JsonObject } from '@longshore/common/json/json-value';
import { Option, type Command } from 'commander';
import { usageError } from '../cli-error.js';
import {
  callsService,
  integerOption,
  openSession,
  several,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { readInputs } from '../runs/inputs.js';
import { followGroup } from '../runs/follow-group.js';
import { GROUP_COLUMNS, GROUP_STATES, groupDetails } from '../runs/group-view.js';
import { overlaid, readJobs, throwAt } from '../runs/job-file.js';
import { withLocalFiles } from '../runs/local-files.js';
import { takesPatience } from '../runs/new-run.js';
import type { Session } from '../service/session.js';
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
  addWatch(parent, context);
  addActions(parent, context);
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
    const session = await openSession(flags, context);
    const [sent = job] = await withLocalFiles(session, [job], flags, (local) => local.inJobs([job]));
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service says what is wrong with it
    const body = overlaid(sent.value, inputs) as JsonObject & Schemas['GroupCreate'];
    const { output } = context;
    const params = dryRun
      ? { query: { dry_run: true } }
      : { header: { 'Idempotency-Key': flags.idempotencyKey ?? session.newKey() } };
    const { data: group, response } = await session
      .answer((init) => session.client.POST('/groups', { params, body, ...init }))
      .catch((error: unknown) => throwAt(job, error, output));
    output.warnings(response, (text) => `${job.placeOf(text)}: ${text}`);
    if (flags.wait) {
      if (!flags.json) output.note(`group ${group.id}`);
      context.end(await followGroup(session, group.id, flags));
    } else if (flags.json) await output.json(group);
    else await output.write(dryRun ? groupDetails(group, output.colours) : `${group.id}\n`);
  });
}

interface ListFlags extends ServiceFlags {
  readonly state?: Group['state'];
  readonly name?: string;
  readonly schedule?: string;
  readonly label?: string[];
  readonly after?: string;
  readonly limit: number;
}

function addList(parent: Command, context: CliContext): void {
  const command = parent
    .command('list')
    .description('list groups, the newest first')
    .addOption(new Option('-s, --state <state>', 'groups in this state').choices(GROUP_STATES))
    .option('--name <name>', 'groups with this name')
    .option('--schedule <id>', 'groups that the schedule made')
    .option('-l, --label <key=value>', 'groups with this label; key alone for any value', several)
    .option('--after <group>', 'groups that are older than this one')
    .addOption(integerOption('-n, --limit <n>', 'so many at most', 1, 100).default(20));
  callsService(command, 'group list --state open', 'group list --name sweep -n 100').action(
    async ({ json, url, key, ...query }: ListFlags) => {
      const session = await openSession({ url, key }, context);
      const groups = await session.ask((init) =>
        session.client.GET('/groups', { params: { query }, ...init }),
      );
      const { output } = context;
      if (json) await output.json(...groups);
      else if (groups.length === 0) output.note('no groups');
      else await output.write(formatTable(GROUP_COLUMNS, groups, output));
    },
  );
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

function addActions(parent: Command, context: CliContext): void {
  asksForOne(
    takesGroup(
      parent,
      'get',
      'show a group: how many runs are in which state, which failed, what it waits for',
    ),
    'group get $GROUP',
    context,
    (session, path) =>
      session.ask((init) => session.client.GET('/groups/{id}', { params: { path }, ...init })),
    groupDetails,
  );
  asksForOne(
    takesGroup(parent, 'cancel', 'cancel the runs of a group that have not ended').option(
      '--reason <text>',
      'why, 500 characters at most; shown with the runs',
    ),
    'group cancel $GROUP --reason "the input was wrong"',
    context,
    (session, path, { reason }: { readonly reason?: string }) => {
      const body = reason === undefined ? {} : { reason };
      const headers = { 'Idempotency-Key': session.newKey() };
      return session.ask((init) =>
        session.client.POST('/groups/{id}/cancel', { params: { path }, body, headers, ...init }),
      );
    },
  );
  asksForOne(
    takesGroup(
      parent,
      'retry',
      'give what failed another attempt, with what that had cancelled; what is completed stays',
    ).option('--all', 'all runs, also completed ones'),
    'group retry $GROUP',
    context,
    (session, path, { all }: { readonly all?: true }) => {
      const body = { only: all ? ('all' as const) : ('failed' as const) };
      const headers = { 'Idempotency-Key': session.newKey() };
      return session.ask((init) =>
        session.client.POST('/groups/{id}/retry', { params: { path }, body, headers, ...init }),
      );
    },
  );
}

/** Adds a command about one group. @param show the group without `--json` */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- commander gives the flags that the command declares
function asksForOne<F>(
  command: Command,
  example: string,
  context: CliContext,
  ask: (session: Session, path: { readonly id: string }, flags: F) => Promise<Group>,
  show: (group: Group, colours: boolean) => string = ({ id, state }) => `${id} ${state}\n`,
): void {
  callsService(command, example).action(async (id: string, flags: ServiceFlags & F) => {
    const session = await openSession(flags, context);
    const group = await ask(session, { id }, flags);
    const { output } = context;
    await (flags.json ? output.json(group) : output.write(show(group, output.colours)));
  });
}
