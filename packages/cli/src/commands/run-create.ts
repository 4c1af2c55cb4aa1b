import type { Schemas } from '@longshore/client';
import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import {
  callsService,
  integerOption,
  openSession,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import {
  given,
  makeRun,
  readAttributes,
  readNewRun,
  takesNewRunFlags,
  type NewRunFlags,
} from '../runs/new-run.js';
import { readRetries } from '../runs/run-options.js';

interface CreateFlags extends ServiceFlags, NewRunFlags {
  readonly json?: true;
  readonly maxAttempts?: number;
  readonly backoff?: number;
  readonly topic?: string;
}

/** `run create` */
export function addRunCreate(parent: Command, context: CliContext): void {
  const command = parent
    .command('create')
    .description('create a run of an image, and print its id')
    .argument('<image>', 'container image');
  takesNewRunFlags(command)
    .addOption(integerOption('--max-attempts <n>', 'attempts that may fail before the run does', 1, 1000))
    .addOption(
      integerOption('--backoff <seconds>', 'wait before the first retry, doubled with each more', 0, 86_400),
    )
    .option('-t, --topic <topic>', 'feed that gets its events');
  callsService(
    command,
    'run create longshore/word-count --input text="to be or not to be" --wait',
    'run create longshore/word-count --inputs inputs.json --max-attempts 3',
    'run create longshore/word-count --inputs - --json < inputs.json',
    'run create busybox --command sh --env NAME=Ada --wait -- -c \'echo "Hello, $NAME"\'',
    'run create trainer --cpu 0.5 --ram-mb 512',
    'run create trainer --ram-mb 1024 --max-attempts 4 --grow-ram 2x:16384',
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
  const { maxAttempts, backoff, topic } = flags;
  const attributes = readAttributes(flags);
  if (attributes !== undefined && topic === undefined) throw usageError('--attribute needs --topic');
  return {
    image,
    ...(await readNewRun(flags, args, context)),
    ...given<unknown>('retry_policy', {
      max_attempts: maxAttempts,
      backoff_s: backoff,
      ...readRetries(flags),
    }),
    ...(topic === undefined ? {} : { event_delivery: { topic, attributes: attributes ?? {} } }),
  };
}
