import type { Schemas } from '@longshore/client';
import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import {
  callsService,
  type CliContext,
  integerOption,
  openSession,
  type ServiceFlags,
  several,
} from '../command-kit.js';
import { splitAssignment } from '../inputs.js';
import { makeRun, type NewRunFlags, readNewRun, takesNewRunFlags } from '../new-run.js';

const MOST = 2 ** 31 - 1;
const MOST_SECONDS = 31_622_400;

interface CreateFlags extends ServiceFlags, NewRunFlags {
  readonly json?: true;
  readonly cpu?: number;
  readonly ramMb?: number;
  readonly vramMb?: number;
  readonly maxAttempts?: number;
  readonly backoff?: number;
  readonly startWithin?: number;
  readonly attemptTimeout?: number;
  readonly topic?: string;
  readonly attribute?: readonly string[];
}

/** `run create` */
export function addRunCreate(parent: Command, context: CliContext): void {
  const command = parent
    .command('create')
    .description('create a run of an image, and print its id')
    .argument('<image>', 'container image');
  takesNewRunFlags(command)
    .addOption(integerOption('--cpu <n>', 'CPUs that it needs', 0, MOST))
    .addOption(integerOption('--ram-mb <n>', 'RAM that it needs', 0, MOST))
    .addOption(integerOption('--vram-mb <n>', 'GPU memory that it needs', 0, MOST))
    .addOption(integerOption('--max-attempts <n>', 'attempts that may fail before the run does', 1, 1000))
    .addOption(
      integerOption('--backoff <seconds>', 'wait before the first retry, doubled with each more', 0, 86_400),
    )
    .addOption(
      integerOption('--start-within <seconds>', 'fail it when no worker starts it in time', 1, MOST_SECONDS),
    )
    .addOption(
      integerOption('--attempt-timeout <seconds>', 'fail an attempt that takes longer', 1, MOST_SECONDS),
    )
    .option('-t, --topic <topic>', 'feed that gets its events')
    .option('--attribute <name=value>', 'label of its events in the feed; needs --topic', several);
  callsService(
    command,
    'run create longshore/word-count --input text="to be or not to be" --wait',
    'run create longshore/word-count --inputs inputs.json --max-attempts 3',
    'run create longshore/word-count --inputs - --json < inputs.json',
    'run create busybox --command sh --env NAME=Ada --wait -- -c \'echo "Hello, $NAME"\'',
    'run create trainer --selector gpu --secret TOKEN=hub-token --concurrency-key gpu-box --start-at 10m',
  ).action(async (image: string, args: readonly string[], flags: CreateFlags) => {
    const body = await readBody(image, args, flags, context);
    const session = await openSession(flags, context);
    await makeRun(session, context, flags, (init) => session.client.POST('/runs', { body, ...init }));
  });
}

async function readBody(
  image: string,
  args: readonly string[],
  flags: CreateFlags,
  context: CliContext,
): Promise<Schemas['OpRunCreate']> {
  const { cpu, ramMb, vramMb, maxAttempts, backoff, startWithin, attemptTimeout, topic, retryOn } = flags;
  if (flags.attribute !== undefined && topic === undefined) throw usageError('--attribute needs --topic');
  const attributes = Object.fromEntries((flags.attribute ?? []).map(splitAssignment));
  return {
    image,
    ...(await readNewRun(flags, args, context)),
    ...given('constraints', { cpu, ram_mb: ramMb, vram_mb: vramMb }),
    ...given('retry_policy', { max_attempts: maxAttempts, backoff_s: backoff, retry_on: retryOn }),
    ...given('timeouts', { start_within_s: startWithin, attempt_s: attemptTimeout }),
    ...(topic === undefined ? {} : { event_delivery: { topic, attributes } }),
  };
}

/** The fields that have a value, under a name; nothing when none has. */
function given<T>(
  name: string,
  fields: Readonly<Record<string, T | undefined>>,
): Readonly<Record<string, Readonly<Record<string, T>>>> {
  const set = Object.entries(fields).filter((entry): entry is [string, T & {}] => entry[1] !== undefined);
  return set.length === 0 ? {} : { [name]: Object.fromEntries(set) };
}
