import type { Schemas } from '@longshore/client';
import type { Command } from 'commander';
import { CliError, EXIT } from './cli-error.js';
import { type CliContext, integerOption, several } from './command-kit.js';
import { type FollowOptions, followRun } from './follow-run.js';
import { readInputs, readJsonObject, splitAssignment } from './inputs.js';
import { readConstraints, type ResourceFlags, takesResourceFlags } from './resource-flags.js';
import { type RunOptionFlags, readRunOptions, takesRunOptions } from './run-options.js';
import type { Answered, CallInit, Session } from './session.js';

/** Options of a call that creates a run. */
export interface CreateInit extends CallInit {
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
  const run = await session
    .ask((init) => call({ ...init, headers }))
    .catch((error: unknown) => {
      if (!(error instanceof CliError) || error.exitCode === EXIT.failed) throw error;
      if (error.exitCode === EXIT.interrupted || error.mayHaveArrived) {
        const hint = `the run may have been created: the same command with --idempotency-key ${key} tells`;
        throw new CliError(error.exitCode, `${error.message}; ${hint}`);
      }
      throw error;
    });
  const { output } = context;
  if (flags.wait !== true) {
    await (flags.json ? output.json(run) : output.line(run.id));
    return;
  }
  if (!flags.json) output.note(`run ${run.id}`);
  context.end(await followRun(session, run.id, followOptions(flags)));
}

/**
 * The fields of the body that runs of images and of definitions have in common.
 * @param operands what stands on the command line besides flags, without the image or definition
 * @throws CliError when a file cannot be read, or flags contradict each other
 */
export async function readNewRun(flags: NewRunFlags, operands: readonly string[], context: CliContext) {
  const { outputs, priority, startWithin, attemptTimeout } = flags;
  return {
    ...(await readRunOptions(flags, operands, context)),
    ...given('constraints', readConstraints(flags)),
    ...given('timeouts', { start_within_s: startWithin, attempt_s: attemptTimeout }),
    inputs: await readInputs(flags, context.stdin),
    ...(outputs === undefined ? {} : { outputs: await readJsonObject(outputs, context.stdin) }),
    ...(priority === undefined ? {} : { priority }),
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
export interface NewRunFlags extends WatchFlags, RunOptionFlags, ResourceFlags {
  readonly input?: readonly string[];
  readonly inputs?: string;
  readonly outputs?: string;
  readonly priority?: number;
  readonly startWithin?: number;
  readonly attemptTimeout?: number;
  readonly attribute?: readonly string[];
  readonly idempotencyKey?: string;
  readonly wait?: true;
}

/** Adds the flags for following a run. */
export function takesWatchFlags(command: Command): Command {
  return command
    .option('--no-logs', 'leave out what the container prints')
    .option('--timestamps', 'put the time before each line of the log')
    .addOption(
      integerOption(
        '--patience <seconds>',
        'how long to wait for a service that is unreachable while a run is followed',
        0,
        MOST_SECONDS,
      ).default(300),
    );
}

/** Adds the flags for creating a run. */
export function takesNewRunFlags(command: Command): Command {
  return takesWatchFlags(
    takesResourceFlags(takesRunOptions(command))
      .option('-i, --input <name=value>', 'an input: JSON, or else text', several)
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

/** Options for following a run from its flags. */
export function followOptions({ json, logs, timestamps, patience }: WatchFlags): FollowOptions {
  return {
    json: json === true,
    timestamps: timestamps === true,
    withoutLogs: !logs,
    patienceMs: patience * 1000,
  };
}
