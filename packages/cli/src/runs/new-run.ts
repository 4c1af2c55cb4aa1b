import type { Schemas } from '@longshore/client';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { CliError, EXIT } from '../cli-error.js';
import { integerOption, several, type CliContext } from '../command-kit.js';
import { followRun, type FollowOptions } from './follow-run.js';
import { takesArtifactFlags, type ArtifactFlags } from './artifact-flags.js';
import { readInputs, readJsonObject, splitAssignment } from './inputs.js';
import { readRetries, readOptionFlags, tags, addOptionFlags, type OptionFlags } from './option-flags.js';
import { keepLastRun } from '../service/last-run.js';
import type { Answered, CallInit, Session } from '../service/session.js';

/** Options of a call that creates a run. */
interface CreateInit extends CallInit {
  readonly headers: Readonly<Record<string, string>>;
}

/** Creates a run, exactly once even if responses are lost, and follows it with `--wait`. @param call sends the request */
export async function makeRun(
  session: Session,
  context: CliContext,
  flags: NewRunFlags,
  call: (init: CreateInit) => Promise<Answered<Schemas['OpRun']>>,
): Promise<void> {
  const key = flags.idempotencyKey ?? session.newKey();
  const headers = { 'Idempotency-Key': key };
  let calls = 0;
  const { data: run, response } = await session
    .answer((init) => {
      calls += 1;
      return call({ ...init, headers });
    })
    .catch((error: unknown) => {
      if (!(error instanceof CliError) || error.exitCode === EXIT.failed) throw error;
      if (error.exitCode === EXIT.interrupted || error.mayHaveArrived) {
        const hint = `the run may have been created: the same command with --idempotency-key ${key} tells`;
        throw new CliError(error.exitCode, `${error.message}; ${hint}`);
      }
      throw error;
    });
  const { output, env } = context;
  await keepLastRun(session.url, run.id, env);
  output.warnings(response);
  // After a lost answer, the earlier run is that of this command.
  if (calls === 1 && response.headers.get('Idempotency-Replayed') === 'true')
    output.note(`an earlier run with this idempotency key, created ${run.createdAt}, ${run.state}`);
  if (flags.wait !== true) {
    await (flags.json ? output.json(run) : output.line(run.id));
    return;
  }
  if (!flags.json) output.note(`run ${run.id}`);
  context.end(await followRun(session, run.id, followOptions(flags)));
}

/**
 * The fields of the body that runs of images and of definitions have in common.
 * @param operands arguments of the container @param types declared types of inputs, by their names
 * @throws CliError when a file cannot be read, or flags contradict each other
 */
export async function readNewRun(
  flags: NewRunFlags,
  operands: readonly string[],
  context: CliContext,
  types?: ReadonlyMap<string, string>,
) {
  const { outputs, priority, startWithin, attemptTimeout } = flags;
  return {
    ...(await readOptionFlags(flags, operands, context)),
    ...given('constraints', readConstraints(flags)),
    ...given('timeouts', { start_within_s: startWithin, attempt_s: attemptTimeout }),
    inputs: await readInputs(flags, context, types),
    ...(outputs === undefined ? {} : { outputs: await readJsonObject(outputs, context.stdin) }),
    ...(priority === undefined ? {} : { priority }),
  };
}

/**
 * The fields of the body that runs of images have beside the image.
 * @param operands arguments of the container @throws as {@link readNewRun}
 */
export async function readImageRun(flags: ImageRunFlags, operands: readonly string[], context: CliContext) {
  const { maxAttempts, backoff, topic } = flags;
  const attributes = readAttributes(flags) ?? (topic && {});
  return {
    ...(await readNewRun(flags, operands, context)),
    ...given<unknown>('retry_policy', {
      max_attempts: maxAttempts,
      backoff_s: backoff,
      ...readRetries(flags),
    }),
    ...given<unknown>('event_delivery', { topic, attributes }),
  };
}

/** Labels of events in the feed. @throws CliError */
export function readAttributes({ attribute }: NewRunFlags): Readonly<Record<string, string>> | undefined {
  return attribute === undefined ? undefined : Object.fromEntries(attribute.map(splitAssignment));
}

/** The fields that have a value, under a name; nothing when none has. */
export function given<T>(
  name: string,
  fields: Readonly<Record<string, T | undefined>>,
): Readonly<Record<string, Readonly<Record<string, T>>>> {
  const set = Object.entries(fields).filter((entry): entry is [string, T & {}] => entry[1] !== undefined);
  return set.length === 0 ? {} : { [name]: Object.fromEntries(set) };
}

const MOST_SECONDS = 86_400;
const LONGEST_TIMEOUT = 31_622_400;

/** Flags for following a run. */
export interface WatchFlags {
  readonly json?: true;
  /** False: `--no-logs`. */
  readonly logs: boolean;
  readonly timestamps?: true;
  /** Seconds. */
  readonly patience: number;
}

/** Flags for creating a run, from an image or a definition. */
export interface NewRunFlags extends WatchFlags, OptionFlags, ResourceFlags, ArtifactFlags {
  readonly input?: readonly string[];
  readonly inputText?: readonly string[];
  readonly inputs?: string;
  readonly outputs?: string;
  readonly priority?: number;
  readonly startWithin?: number;
  readonly attemptTimeout?: number;
  readonly attribute?: readonly string[];
  readonly idempotencyKey?: string;
  readonly wait?: true;
}

/** Flags for creating a run of an image. */
export interface ImageRunFlags extends NewRunFlags {
  readonly maxAttempts?: number;
  readonly backoff?: number;
  readonly topic?: string;
}

/** Adds the flags for following a run. */
export function takesWatchFlags(command: Command): Command {
  return takesPatience(
    command
      .option('--no-logs', 'leave out what the container prints')
      .option('--timestamps', 'put the time before each line of the log'),
  );
}

/** Adds the flag for how long a follower waits for the service. */
export function takesPatience(command: Command): Command {
  return command.addOption(
    integerOption(
      '--patience <seconds>',
      'how long to wait for a service that is unreachable while a run or group is followed',
      0,
      MOST_SECONDS,
    ).default(300),
  );
}

/** Adds the flags for creating a run. */
export function takesNewRunFlags(command: Command): Command {
  command.allowUnknownOption();
  return takesWatchFlags(
    takesResourceFlags(takesArtifactFlags(addOptionFlags(command)))
      .option('-i, --input <name=value>', 'an input: JSON, or else text', several)
      .option('--input-text <name=value>', 'an input that is text whatever it looks like', several)
      .option('--inputs <file>', 'a JSON object of inputs, - for standard input; --input overrides')
      .option('--outputs <file>', 'a JSON object that the container finds in its output file')
      .addOption(integerOption('-p, --priority <n>', 'higher is scheduled first', -(2 ** 31), 2 ** 31 - 1))
      .addOption(
        integerOption(
          '--start-within <seconds>',
          'fail it when no worker starts it in time',
          1,
          LONGEST_TIMEOUT,
        ),
      )
      .addOption(
        integerOption('--attempt-timeout <seconds>', 'fail an attempt that takes longer', 1, LONGEST_TIMEOUT),
      )
      .option('--attribute <name=value>', 'label of its events in the feed; needs a topic', several)
      .option('--idempotency-key <key>', 'requests with the same key create one run (default: a new key)')
      .option('-w, --wait', 'follow the run; the exit code says how it ended'),
  );
}

/** Adds the flags for creating a run of an image. */
export function takesImageRunFlags(command: Command): Command {
  return takesNewRunFlags(command)
    .addOption(integerOption('--max-attempts <n>', 'attempts that may fail before the run does', 1, 1000))
    .addOption(
      integerOption('--backoff <seconds>', 'wait before the first retry, doubled with each more', 0, 86_400),
    )
    .option('-t, --topic <topic>', 'feed that gets its events');
}

/** Options for following a run from its flags. */
export function followOptions({ json, logs, timestamps, patience }: WatchFlags): FollowOptions {
  return {
    json: json === true,
    timestamps: timestamps === true,
    withoutLogs: !logs,
    patienceMs: patience * 1000,
  };
}

const MOST = 2 ** 31 - 1;
const MOST_GPUS = 64;

/** Flags for the resources of a run; CPU in thousandths of a core. */
export interface ResourceFlags {
  readonly cpu?: number;
  readonly cpuLimit?: number;
  readonly ramMb?: number;
  readonly shmMb?: number;
  readonly vramMb?: number;
  readonly gpus?: number;
  readonly gpuTag?: readonly string[];
}

/** Adds the flags. */
export function takesResourceFlags(command: Command): Command {
  return command
    .addOption(new Option('--cpu <cores>', 'cores that it needs, such as 2 or 0.5').argParser(millis))
    .addOption(
      new Option(
        '--cpu-limit <cores>',
        'cores that it may use at most; 0: no limit (default: as many as it needs)',
      ).argParser(millis),
    )
    .addOption(integerOption('--ram-mb <n>', 'RAM that it needs', 0, MOST))
    .addOption(integerOption('--shm-mb <n>', 'size of /dev/shm (default: that of its RAM)', 1, MOST))
    .addOption(
      integerOption('--vram-mb <n>', 'GPU memory that it needs: of one GPU, or of each of --gpus', 0, MOST),
    )
    .addOption(integerOption('--gpus <n>', 'whole GPUs of one machine that it has alone', 0, MOST_GPUS))
    .option('--gpu-tag <tag>', 'only GPUs with this tag; a list is separated by commas', tags);
}

/** The member of a request that the flags give: whole cores as interface.md has them. */
export function readConstraints(flags: ResourceFlags) {
  const { cpu, cpuLimit, ramMb, shmMb, vramMb, gpus, gpuTag } = flags;
  const isWhole = cpu !== undefined && cpu % 1000 === 0;
  return {
    cpu: isWhole ? cpu / 1000 : undefined,
    cpu_millis: isWhole ? undefined : cpu,
    cpu_limit_millis: cpuLimit,
    ram_mb: ramMb,
    shm_mb: shmMb,
    vram_mb: vramMb,
    gpus,
    gpu_selector: gpuTag,
  };
}

/** Reads cores as thousandths. @throws InvalidArgumentError */
function millis(text: string): number {
  const value = /^\d{1,10}(?:\.\d{1,3})?$/.test(text) ? Math.round(Number(text) * 1000) : Number.NaN;
  if (value <= MOST) return value;
  throw new InvalidArgumentError('It must be a number of cores with at most three digits after the point.');
}
