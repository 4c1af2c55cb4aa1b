import type { Schemas } from '@longshore/client';
import type { JsonObject } from '@longshore/common/json/json-value';
import { type Command, Option } from 'commander';
import { CliError, EXIT, refusalText, usageError } from '../cli-error.js';
import { callsService, openSession, type CliContext, type ServiceFlags } from '../command-kit.js';
import { readArtifacts, withArtifacts } from '../runs/artifact-flags.js';
import { readDependencies, takesAfterFlags, type AfterFlags } from '../runs/dependencies.js';
import { noteRefusal, overlaid, placed, readJobs, throwAt, type Job } from '../runs/job-file.js';
import { withLocalFiles } from '../runs/local-files.js';
import { makeRun, readImageRun, takesImageRunFlags, type ImageRunFlags } from '../runs/new-run.js';
import { AFTER_DASHES, splitOperands, unknownWordError } from '../runs/operands.js';
import { runPreview } from '../runs/run-view.js';
import { keepLastRun } from '../service/last-run.js';
import type { Session } from '../service/session.js';

/** Runs of one request. */
const BATCH = 100;

interface CreateFlags extends ServiceFlags, ImageRunFlags, AfterFlags {
  readonly json?: true;
  readonly from?: string;
  readonly dryRun?: true;
}

/** `run create` */
export function addRunCreate(parent: Command, context: CliContext): void {
  const command = parent
    .command('create')
    .description('create a run of an image, or the runs of a file, and print the ids')
    .argument('[image]', 'container image; needed without -f')
    .option(
      '-f, --from <file>',
      'a run in JSON or YAML, a list of them or several documents, - for standard input; other flags override it',
    )
    .addOption(
      new Option('--dry-run', 'print what the runs would be, and create nothing').conflicts([
        'wait',
        'idempotencyKey',
      ]),
    );
  takesAfterFlags(takesImageRunFlags(command));
  callsService(
    command,
    'run create longshore/word-count --input text="to be or not to be" --wait',
    'run create longshore/word-count --inputs inputs.json --max-attempts 3',
    'run create longshore/word-count --inputs - --json < inputs.json',
    'run create -f job.yaml --ram-mb 4096 --dry-run',
    'run create busybox --command sh --env NAME=Ada --wait -- -c \'echo "Hello, $NAME"\'',
    'run create trainer --cpu 0.5 --ram-mb 512',
    'run create trainer --ram-mb 1024 --max-attempts 4 --grow-ram 2x:16384',
    'run create trainer --in /data/train.csv=@train.csv --in /app=@./src --out model=/out/model.bin',
    'run create evaluate --after nightly-train,@last:ended',
    'run create trainer --selector gpu --secret TOKEN=hub-token --concurrency-key gpu-box --start-at 10m',
  ).action(async (image: string | undefined, args: readonly string[], flags: CreateFlags) => {
    const read = await readBodies(command, image, args, flags, context);
    const session = await openSession(flags, context);
    const dependencies = await readDependencies(flags, session, context.env);
    if (read.length === 0) throw usageError('give the image of the run, or -f with a file');
    if (flags.wait && read.length > 1) throw usageError(`--wait follows one run, not ${read.length}`);
    const artifacts = await readArtifacts(flags, session, context.env);
    const wanted = read.map((one) => ({
      ...one,
      value: withArtifacts(overlaid(one.value, dependencies), artifacts),
    }));
    const jobs = await withLocalFiles(session, wanted, flags, (local) => local.inJobs(wanted));
    const [job, ...others] = jobs;
    if (flags.dryRun) await preview(session, jobs, flags);
    else if (job !== undefined && others.length === 0) {
      await makeRun(session, context, flags, (init) =>
        session.client.POST('/runs', { body: bodyOf(job), ...init }),
      ).catch((error: unknown) => throwAt(job, error, context.output));
    } else await createAll(session, jobs, flags, context);
  });
}

/** The runs of the file, or the one of the flags, with what the flags say. */
async function readBodies(
  command: Command,
  word: string | undefined,
  operands: readonly string[],
  flags: CreateFlags,
  context: CliContext,
): Promise<readonly Job[]> {
  const all = word === undefined ? operands : [word, ...operands];
  const hasImage = context.argv.at(-all.length - 1) !== '--' && word?.startsWith('-') === false;
  const image = hasImage ? word : undefined;
  const { unknown, args } = splitOperands(hasImage ? operands : all, context.argv);
  if (unknown[0] !== undefined)
    throw unknownWordError(unknown[0], command, { names: [], hint: AFTER_DASHES });
  const { attribute, topic, from } = flags;
  if (attribute !== undefined && topic === undefined && from === undefined)
    throw usageError('--attribute needs --topic');
  const body = {
    ...(image === undefined ? {} : { image }),
    ...(await readImageRun(flags, args, context)),
  };
  if (from === undefined)
    return image === undefined ? [] : [{ value: Object(body), file: undefined, placeOf: () => '' }];
  const jobs = await readJobs(from, context.stdin);
  return jobs.map((job) => ({ ...job, value: overlaid(job.value, body) }));
}

function bodyOf({ value }: Job): Schemas['OpRunCreate'] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service says what is wrong with it
  return value as JsonObject & Schemas['OpRunCreate'];
}

async function preview(session: Session, jobs: readonly Job[], { json }: CreateFlags): Promise<void> {
  const { output } = session;
  for (const job of jobs) {
    const params = { query: { dry_run: true } };
    const { data, response } = await session
      .answer((init) => session.client.POST('/runs', { params, body: bodyOf(job), ...init }))
      .catch((error: unknown) => throwAt(job, error, output));
    output.warnings(response, (text) => placed(job, text));
    await (json ? output.json(data) : output.write(runPreview(data, output.colours)));
  }
}

/** Creates runs, each exactly once even if responses are lost. One that is refused does not keep the others from being created. */
async function createAll(
  session: Session,
  jobs: readonly Job[],
  { idempotencyKey, json }: CreateFlags,
  context: CliContext,
): Promise<void> {
  const { output } = session;
  const key = idempotencyKey ?? session.newKey();
  for (let from = 0; from < jobs.length; from += BATCH) {
    const batch = jobs.slice(from, from + BATCH);
    const params = { header: { 'Idempotency-Key': from === 0 ? key : `${key}/${from}` } };
    const body = { runs: batch.map(bodyOf) };
    const { data, response } = await session.answer((init) =>
      session.client.POST('/runs/batch', { params, body, ...init }),
    );
    const { results } = data;
    output.warnings(response, (text) => {
      const [, index = '', said = ''] = /^runs\.(\d+)\.(.*)$/s.exec(text) ?? [];
      const { [Number(index)]: job } = batch;
      return index === '' || job === undefined ? text : placed(job, said);
    });
    for (const [index, job] of batch.entries()) {
      const result = results[index];
      if (result !== undefined && 'run' in result && 'id' in result.run) {
        await (json ? output.json(result.run) : output.line(result.run.id));
        await keepLastRun(session.url, result.run.id, context.env);
        continue;
      }
      context.end(EXIT.failed);
      const refusal = result !== undefined && 'error' in result ? result.error : undefined;
      const error = new CliError(EXIT.failed, refusalText(refusal) ?? 'no answer', false, refusal?.errors);
      noteRefusal(job, error, output);
    }
  }
}
