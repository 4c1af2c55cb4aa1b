import type { Schemas } from '@longshore/client';
import { stringifyJson } from '@longshore/common/json/json-text';
import { readWarnings } from '@longshore/common/warnings';
import { oneLine } from '@longshore/common/shown-text';
import { Option, type Command } from 'commander';
import { usageError } from '../cli-error.js';
import { callsService, openSession, printsList, type CliContext, type ServiceFlags } from '../command-kit.js';
import { readJsonFile } from '../runs/inputs.js';
import {
  given,
  makeRun,
  readAttributes,
  readNewRun,
  takesNewRunFlags,
  type NewRunFlags,
} from '../runs/new-run.js';
import { readRetries } from '../runs/run-options.js';
import { runPreview } from '../runs/run-view.js';
import { ago, type Column } from '../terminal/table.js';

type Definition = Schemas['OpDefinition'];
type VersionFlags = ServiceFlags & { readonly version?: string };
type RunFlags = VersionFlags & NewRunFlags & { readonly dryRun?: true };

const COLUMNS: readonly Column<Definition>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'VERSION', text: ({ version }) => version },
  { title: 'AGE', text: ({ createdAt }) => ago(createdAt) },
  {
    title: 'INPUTS',
    text: ({ input_specs: specs }) =>
      Object.entries(specs)
        .map(([name, { required }]) => (required ? name : `[${name}]`))
        .join(' ') || '-',
    isElastic: true,
  },
  { title: 'IMAGE', text: ({ image }) => image, isElastic: true },
];

/** `def ...` */
export function addDefinitions(program: Command, context: CliContext): void {
  const parent = program
    .command('def')
    .helpCommand(false)
    .description('definitions: versioned templates of runs');
  addApply(parent, context);
  addList(parent, context);
  addGet(parent, context);
  addRun(parent, context);
  addDelete(parent, context);
}

function addApply(parent: Command, context: CliContext): void {
  const command = parent
    .command('apply')
    .description('store definitions, each in place of the one with its id and version')
    .requiredOption('-f, --file <file>', 'a definition in JSON, or a list of them; - for standard input');
  callsService(command, 'def apply -f word-count.json').action(
    async (flags: ServiceFlags & { readonly file: string }) => {
      const content = await readJsonFile(flags.file, context.stdin);
      const session = await openSession(flags, context);
      const { output } = context;
      for (const definition of Array.isArray(content) ? content : [content]) {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service says what is wrong with it
        const body = definition as Schemas['OpDefinitionCreate'];
        const { data: stored, response } = await session.answer((init) =>
          session.client.POST('/definitions', { body, ...init }),
        );
        for (const text of readWarnings(response.headers))
          output.note(`longshore: warning: ${oneLine(text)}`);
        const done = response.status === 201 ? 'created' : 'replaced';
        await (flags.json ? output.json(stored) : output.line(`${stored.id}/${stored.version} ${done}`));
      }
    },
  );
}

function addList(parent: Command, context: CliContext): void {
  const command = parent.command('list').description('list definitions, all versions');
  printsList(command, 'def list', context, {
    columns: COLUMNS,
    empty: 'no definitions',
    page: (client, asked) => client.GET('/definitions', { ...asked }),
    cursorOf: ({ id, version }) => `${id}/${version}`,
  });
}

function addGet(parent: Command, context: CliContext): void {
  const command = parent
    .command('get')
    .description('print a definition as JSON, fit for def apply after an edit')
    .argument('<name>', 'id of the definition')
    .option('--version <version>', 'its version (else the newest)');
  callsService(command, 'def get word-count').action(async (name: string, flags: VersionFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { name }, query: versionOf(flags) };
    const definition = await session.ask((init) =>
      session.client.GET('/definitions/{name}', { params, ...init }),
    );
    const { output } = context;
    if (flags.json) {
      await output.json(definition);
      return;
    }
    const { createdAt: _, updatedAt: __, event_delivery: delivery, ...rest } = definition;
    const shown = { ...rest, ...(delivery === null ? {} : { event_delivery: delivery }) };
    await output.line(stringifyJson(shown, 2));
  });
}

function addRun(parent: Command, context: CliContext): void {
  const command = parent
    .command('run')
    .description('create a run from a definition, and print its id')
    .argument('<name>', 'id of the definition')
    .option('--version <version>', 'its version (else the newest)')
    .addOption(
      new Option('--dry-run', 'print the command, environment and inputs, and create nothing').conflicts([
        'wait',
        'idempotencyKey',
      ]),
    );
  takesNewRunFlags(command);
  callsService(
    command,
    'def run word-count --input text="to be" --wait',
    'def run word-count --input text="to be" --dry-run',
    'def run nightly-report --env REGION=eu --cpu 4 --start-at 2h',
  ).action(async (name: string, args: readonly string[], flags: RunFlags) => {
    const { dryRun } = flags;
    const body = {
      ...(await readNewRun(flags, args, context)),
      ...given<unknown>('retry_policy', readRetries(flags)),
      ...given('event_delivery', { attributes: readAttributes(flags) }),
    };
    const session = await openSession(flags, context);
    if (dryRun === true) {
      const asked = { path: { name }, query: { ...versionOf(flags), dry_run: true } };
      const run = await session.ask((init) =>
        session.client.POST('/definitions/{name}/runs', { params: asked, body, ...init }),
      );
      const { output } = context;
      await (flags.json ? output.json(run) : output.write(runPreview(run, output.colours)));
      return;
    }
    const params = { path: { name }, query: versionOf(flags) };
    await makeRun(session, context, flags, (init) =>
      session.client.POST('/definitions/{name}/runs', { params, body, ...init }),
    );
  });
}

function addDelete(parent: Command, context: CliContext): void {
  const command = parent
    .command('delete')
    .description('delete a version of a definition, or all of them; its runs stay')
    .argument('<name>', 'id of the definition')
    .addOption(new Option('--version <version>', 'the version').conflicts('all'))
    .option('--all', 'all versions');
  callsService(command, 'def delete word-count --version 1').action(
    async (name: string, flags: VersionFlags & { readonly all?: true }) => {
      const { all } = flags;
      if (flags.version === undefined && !all) throw usageError('name the --version, or give --all');
      const session = await openSession(flags, context);
      const params = { path: { name }, query: all ? { all } : versionOf(flags) };
      await session.ask((init) => session.client.DELETE('/definitions/{name}', { params, ...init }));
      if (!flags.json) await context.output.line(`${name}${all ? '' : `/${flags.version}`} deleted`);
    },
  );
}

function versionOf({ version }: VersionFlags): { version?: string } {
  return version === undefined ? {} : { version };
}
