import type { Schemas } from '@longshore/client';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { Option, type Command } from 'commander';
import { SCHEDULES, storeSchedule } from '../catalog/objects.js';
import { usageError } from '../cli-error.js';
import {
  callsService,
  integerOption,
  openSession,
  printsList,
  several,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import {
  readArtifacts,
  takesArtifactFlags,
  withArtifacts,
  type ArtifactFlags,
} from '../runs/artifact-flags.js';
import { readInputs } from '../runs/inputs.js';
import { overlaid, readJobs, throwAt, without, type Job } from '../runs/job-file.js';
import { withLocalFiles } from '../runs/local-files.js';
import {
  outcomesText,
  scheduleDetails,
  SYMBOLS_TEXT,
  takesSchedule,
  timesText,
} from '../catalog/schedule-view.js';
import type { Answered, CallInit, Session } from '../service/session.js';
import type { Column } from '../terminal/table.js';
import { addScheduleTimes } from './schedule-times.js';

type Schedule = Schemas['Schedule'];

const COLUMNS: readonly Column<Schedule>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'TIMES', text: timesText, isElastic: true },
  { title: 'ZONE', text: ({ timezone }) => timezone },
  {
    title: 'NEXT',
    text: ({ paused, paused_note: note, next: [next = '-'] }) =>
      paused ? `paused${note === null ? '' : `: ${note}`}` : next,
    isElastic: true,
  },
  { title: 'LAST', text: outcomesText },
];

/** `schedule ...` */
export function addSchedules(program: Command, context: CliContext): void {
  const parent = program
    .command('schedule')
    .helpCommand(false)
    .description('schedules: runs that are made at their times');
  const list = parent
    .command('list')
    .description(`list schedules; LAST has what became of the last times: ${SYMBOLS_TEXT}`);
  printsList(list, 'schedule list', context, { ...SCHEDULES, columns: COLUMNS, empty: 'no schedules' });
  addGet(parent, context);
  addSet(parent, context);
  addDelete(parent, context);
  addPause(parent, context);
  addResume(parent, context);
  addScheduleTimes(parent, context);
}

function addGet(parent: Command, context: CliContext): void {
  const command = takesSchedule(
    parent,
    'get',
    'show a schedule, its next times and what became of the last ones',
  );
  callsService(command, 'schedule get nightly').action(
    async (id: string, { json, ...flags }: ServiceFlags) => {
      const session = await openSession(flags, context);
      const params = { path: { id } };
      const found = await session.ask((init) => session.client.GET('/schedules/{id}', { params, ...init }));
      const { output } = context;
      if (json) await output.json(found);
      else await output.write(scheduleDetails(found, output));
    },
  );
}

interface SetFlags extends ServiceFlags, ArtifactFlags {
  readonly file?: string;
  readonly cron?: readonly string[];
  readonly every?: number;
  readonly timezone?: string;
  readonly overlap?: string;
  readonly description?: string;
  readonly image?: string;
  readonly definition?: string;
  readonly version?: string;
  readonly input?: readonly string[];
}

interface NamedJob extends Job {
  readonly id: string;
}

function addSet(parent: Command, context: CliContext): void {
  const command = parent
    .command('set')
    .description('create or replace a schedule, as a whole')
    .argument('[schedule]', 'id of the schedule (default: that of the file)')
    .option(
      '-f, --file <file>',
      'a schedule in JSON or YAML, a list of them or several documents, - for standard input; other flags override it',
    )
    .option('--cron <expression>', 'five fields, or @daily and the like; may be given several times', several)
    .addOption(
      integerOption('--every <seconds>', 'seconds between two times', 10, 31_622_400).conflicts('cron'),
    )
    .option('--timezone <zone>', 'time zone of --cron, such as Europe/Berlin (default: UTC)')
    .addOption(
      new Option(
        '--overlap <rule>',
        'when a run of the schedule has not ended at the next time (default: skip)',
      ).choices(['skip', 'allow', 'queue_one', 'cancel_previous']),
    )
    .option('--description <text>', 'what it is for')
    .addOption(new Option('--image <image>', 'container image of its runs').conflicts('definition'))
    .option('--definition <name>', 'its runs are of this definition')
    .option('--version <version>', 'version of the definition (default: the newest at each time)')
    .option('-i, --input <name=value>', 'an input of its runs: JSON, or else text', several)
    .option('--dry-run', 'check it and show its next times, and store nothing');
  callsService(
    takesArtifactFlags(command),
    'schedule set nightly --cron "0 3 * * *" --timezone Europe/Berlin --definition report',
    'schedule set poll --every 300 --image longshore/word-count --input text=hello --overlap allow',
    'schedule set train --cron @weekly --image trainer --in /app=@./src --out model=/out/model.bin',
    'schedule set -f schedules.yaml --dry-run',
  ).action(async (id: string | undefined, flags: SetFlags) => {
    const jobs =
      flags.file === undefined
        ? [{ value: {}, file: undefined, placeOf: () => '' }]
        : await readJobs(flags.file, context.stdin);
    if (id !== undefined && jobs.length > 1)
      throw usageError(`the file has ${jobs.length} schedules: leave out the id`);
    const named = jobs.map((job): NamedJob => {
      const { id: own } = job.value;
      const name = id ?? own;
      if (typeof name !== 'string')
        throw usageError(`${job.placeOf('')} give the id of the schedule`.trimStart());
      return { ...job, id: name, value: without(job.value, 'id') };
    });
    const given = await readFlags(flags, context);
    const session = await openSession(flags, context);
    const { output } = context;
    const ofFlags = await readArtifacts(flags, session, context.env);
    const wanted = named.map((job) => {
      const value = overlaid(job.value, given);
      const { run } = value;
      const all = { run: withArtifacts(isJsonObject(run) ? run : {}, ofFlags) };
      return { ...job, value: ofFlags.artifacts === undefined ? value : overlaid(value, all) };
    });
    const store = async (job: NamedJob, isTrial: boolean): Promise<void> => {
      const { data, response } = await storeSchedule(session, job.id, job.value, isTrial).catch(
        (error: unknown) => throwAt(job, error, output),
      );
      if (isTrial && !flags.dryRun) return;
      const done = isTrial ? 'can be stored' : response.status === 201 ? 'created' : 'replaced';
      const next = data.next.length === 0 ? '' : `, next at ${data.next[0]}`;
      await (flags.json ? output.json(data) : output.line(`${data.id} ${done}${next}`));
    };
    await withLocalFiles(session, wanted, flags, async (local) => {
      // Of several, none is stored unless all can be.
      for (const isTrial of flags.dryRun ? [true] : jobs.length > 1 ? [true, false] : [false])
        for (const job of await local.inJobs(wanted, isTrial)) await store(job, isTrial);
    });
  });
}

/** The fields of a schedule that flags give. */
async function readFlags(flags: SetFlags, context: CliContext): Promise<JsonObject> {
  const { cron, every, timezone, overlap, description, image, definition, version, input } = flags;
  const inputs = input === undefined ? undefined : await readInputs({ input }, context);
  const run = present({ image, definition, version, inputs });
  return present({
    cron: cron && [...cron],
    every_s: every,
    timezone,
    overlap,
    description,
    run: Object.keys(run).length === 0 ? undefined : run,
  });
}

function present(fields: Readonly<Record<string, JsonObject[string] | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function addDelete(parent: Command, context: CliContext): void {
  const command = takesSchedule(
    parent,
    'delete',
    'delete a schedule, with what became of its times; its runs stay',
  );
  callsService(command, 'schedule delete nightly').action(async (id: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { id } };
    await session.ask((init) => session.client.DELETE('/schedules/{id}', { params, ...init }));
    if (!flags.json) await context.output.line(`${id} deleted`);
  });
}

function addPause(parent: Command, context: CliContext): void {
  const command = takesSchedule(parent, 'pause', 'make no runs until it is resumed; its runs go on').option(
    '--note <text>',
    'why',
  );
  callsService(command, 'schedule pause nightly --note "the warehouse is being moved"').action(
    (id: string, flags: ServiceFlags & { readonly note?: string }) => {
      const body = flags.note === undefined ? {} : { note: flags.note };
      return change(id, flags, context, (session, params, init) =>
        session.client.POST('/schedules/{id}/pause', { params, body, ...init }),
      );
    },
  );
}

function addResume(parent: Command, context: CliContext): void {
  const command = takesSchedule(
    parent,
    'resume',
    'go on with the next time; those of the pause are not made up for',
  );
  callsService(command, 'schedule resume nightly').action((id: string, flags: ServiceFlags) =>
    change(id, flags, context, (session, params, init) =>
      session.client.POST('/schedules/{id}/resume', { params, ...init }),
    ),
  );
}

interface OneSchedule {
  readonly path: { readonly id: string };
}

async function change(
  id: string,
  flags: ServiceFlags,
  context: CliContext,
  call: (session: Session, params: OneSchedule, init: CallInit) => Promise<Answered<Schedule>>,
): Promise<void> {
  const session = await openSession(flags, context);
  const changed = await session.ask((init) => call(session, { path: { id } }, init));
  const state = changed.paused ? 'paused' : `resumed, next at ${changed.next[0] ?? 'no time'}`;
  await (flags.json ? context.output.json(changed) : context.output.line(`${id} ${state}`));
}
