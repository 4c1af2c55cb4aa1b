import type { Schemas } from '@longshore/client';
import { stringifyJson } from '@longshore/common/json/json-text';
import { Option, type Command } from 'commander';
import { DEFINITIONS, storeDefinition } from '../catalog/objects.js';
import { usageError } from '../cli-error.js';
import { callsService, openSession, printsList, type CliContext, type ServiceFlags } from '../command-kit.js';
import { readArtifacts, uploadInputs } from '../runs/artifact-flags.js';
import { readDependencies, takesAfterFlags, type AfterFlags } from '../runs/dependencies.js';
import { placed, readJobs, throwAt, type Job } from '../runs/job-file.js';
import { withLocalFiles } from '../runs/local-files.js';
import {
  given,
  makeRun,
  readAttributes,
  readNewRun,
  takesNewRunFlags,
  type NewRunFlags,
} from '../runs/new-run.js';
import { splitOperands, unknownWordError } from '../runs/operands.js';
import { readRetries } from '../runs/option-flags.js';
import { runPreview } from '../runs/run-view.js';
import type { Session } from '../service/session.js';
import { ago, type Column } from '../terminal/table.js';

type Definition = Schemas['OpDefinition'];
type VersionFlags = ServiceFlags & { readonly version?: string };
type ApplyFlags = ServiceFlags & { readonly file: string; readonly dryRun?: true };
type RunFlags = VersionFlags & NewRunFlags & AfterFlags & { readonly dryRun?: true };

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
    .requiredOption(
      '-f, --file <file>',
      'a definition in JSON or YAML, a list of them or several documents; - for standard input',
    )
    .option('--dry-run', 'check the definitions, and store nothing');
  callsService(command, 'def apply -f word-count.json', 'def apply -f definitions.yaml --dry-run').action(
    async (flags: ApplyFlags) => {
      const jobs = await readJobs(flags.file, context.stdin);
      const session = await openSession(flags, context);
      const apply = async (job: Job, isTrial: boolean): Promise<void> => {
        const { data, response } = await storeDefinition(session, job.value, isTrial).catch(
          (error: unknown) => throwAt(job, error, context.output),
        );
        if (isTrial && !flags.dryRun) return;
        const { output } = context;
        output.warnings(response, (text) => placed(job, text));
        const done = isTrial ? 'can be stored' : response.status === 201 ? 'created' : 'replaced';
        await (flags.json ? output.json(data) : output.line(`${data.id}/${data.version} ${done}`));
      };
      await withLocalFiles(session, jobs, flags, async (local) => {
        // Of several, none is stored unless all can be.
        for (const isTrial of flags.dryRun ? [true] : jobs.length > 1 ? [true, false] : [false])
          for (const job of await local.inJobs(jobs, isTrial)) await apply(job, isTrial);
      });
    },
  );
}

function addList(parent: Command, context: CliContext): void {
  const command = parent.command('list').description('list definitions, all versions');
  printsList(command, 'def list', context, {
    columns: COLUMNS,
    empty: 'no definitions',
    ...DEFINITIONS,
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
    const definition = await readDefinition(session, name, flags);
    const { output } = context;
    if (flags.json) {
      await output.json(definition);
      return;
    }
    const {
      applied: _,
      createdAt: __,
      updatedAt: ___,
      created_by: ____,
      updated_by: _____,
      event_delivery: delivery,
      ...rest
    } = definition;
    const shown = { ...rest, ...(delivery === null ? {} : { event_delivery: delivery }) };
    await output.line(stringifyJson(shown, 2));
  });
}

function readDefinition(session: Session, name: string, flags: VersionFlags): Promise<Definition> {
  const params = { path: { name }, query: versionOf(flags) };
  return session.ask((init) => session.client.GET('/definitions/{name}', { params, ...init }));
}

/**
 * Reads `--name value` and `--name=value` as declared inputs, `--name` and `--no-name` as true and false. `-` stands for `_`.
 * @returns `name=value` for each @throws CliError for a word that is no input
 */
function readInputFlags(
  words: readonly string[],
  specs: Definition['input_specs'],
  command: Command,
): readonly string[] {
  const names = Object.keys(specs);
  const find = (flag: string): string | undefined =>
    names.find((name) => name.replaceAll('_', '-') === flag.replaceAll('_', '-'));
  const assignments: string[] = [];
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    const [, flag = '', value] = /^--([^=]+)(?:=(.*))?$/s.exec(word) ?? [];
    const name = find(flag);
    const next = words[at + 1];
    const isSwitch = (key: string): boolean => /^bool(?:ean)?$/i.test(specs[key]?.type ?? '');
    if (
      name !== undefined &&
      (value !== undefined || (isSwitch(name) && !/^(?:true|false)$/.test(next ?? '')))
    ) {
      assignments.push(`${name}=${value ?? 'true'}`);
    } else if (name !== undefined && next !== undefined) {
      assignments.push(`${name}=${next}`);
      at += 1;
    } else if (name !== undefined) {
      throw usageError(`--${flag} needs a value`);
    } else {
      const negated = flag.startsWith('no-') ? find(flag.slice(3)) : undefined;
      const hint =
        names.length === 0 ? 'the definition declares no inputs' : `its inputs are ${names.join(', ')}`;
      if (negated === undefined || !isSwitch(negated)) throw unknownWordError(word, command, { names, hint });
      assignments.push(`${negated}=false`);
    }
  }
  return assignments;
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
  takesAfterFlags(takesNewRunFlags(command));
  callsService(
    command,
    'def run word-count --input text="to be" --wait',
    'def run word-count --input text="to be" --dry-run',
    'def run convert --input table=@table.csv',
    'def run nightly-report --env REGION=eu --cpu 4 --start-at 2h',
  ).action(async (name: string, words: readonly string[], flags: RunFlags) => {
    const { dryRun } = flags;
    const { unknown, args } = splitOperands(words, context.argv);
    if (name.startsWith('-')) throw usageError(`the name of the definition comes first, then ${name}`);
    const session = await openSession(flags, context);
    // Without single inputs, types do not matter.
    const specs =
      flags.input !== undefined || unknown.length > 0
        ? (await readDefinition(session, name, flags)).input_specs
        : undefined;
    const assignments = [...(flags.input ?? []), ...readInputFlags(unknown, specs ?? {}, command)];
    const types = specs && new Map(Object.entries(specs).map(([key, { type }]) => [key, type] as const));
    const input = await uploadInputs(assignments, types ?? new Map(), session, flags);
    const body = {
      ...(await readNewRun({ ...flags, input }, args, context, types)),
      ...given<unknown>('retry_policy', readRetries(flags)),
      ...given('event_delivery', { attributes: readAttributes(flags) }),
      ...(await readDependencies(flags, session, context.env)),
      ...(await readArtifacts(flags, session, context.env)),
    };
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
