import { join } from 'node:path';
import type { Command } from 'commander';
import { becomeProgram } from '../become-program.js';
import type { CliContext } from '../cli-context.js';
import { withExamples } from '../command-kit.js';
import { readLogin } from '../config-file.js';
import { chooseConnection, type ConnectionFlags } from '../connection.js';

/** Flags of the worker by the variables that they stand for. */
const FLAGS = [
  ['id', 'SERVICE_WORKER_ID', '<id>', 'name of the worker (else the name of the machine)'],
  ['tags', 'SERVICE_WORKER_TAGS', '<tags>', 'tags, separated by commas'],
  [
    'runtime',
    'SERVICE_WORKER_RUNTIME',
    '<runtime>',
    'docker or process (else docker where an engine answers)',
  ],
  ['imagesDir', 'SERVICE_WORKER_IMAGES_DIR', '<folder>', 'folder of images for the runtime process'],
  ['maxRuns', 'SERVICE_WORKER_MAX_RUNS', '<n>', 'runs at once (else one a CPU core)'],
  ['tick', 'SERVICE_WORKER_TICK', '<seconds>', 'time between heartbeats'],
  ['drain', 'SERVICE_WORKER_DRAIN', '<seconds>', 'how long runs may go on after the worker was told to end'],
  ['logLevel', 'SERVICE_LOG_LEVEL', '<level>', 'debug, info, warning or error'],
] as const;

type WorkerFlags = ConnectionFlags & Readonly<Partial<Record<(typeof FLAGS)[number][0], string>>>;

/** `worker`: the worker reads its variables, to which the flags are added. */
export function addWorker(program: Command, { env }: CliContext): void {
  const command = program
    .command('worker')
    .description('start a worker: it claims runs and executes them; the key needs the scope worker')
    .option('--url <url>', 'the service (SERVICE_URL, else what login kept)')
    .option('--key <key>', 'the API key; process lists show it (SERVICE_API_KEY, else what login kept)');
  for (const [name, variable, value, description] of FLAGS) {
    const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    command.option(`--${flag} ${value}`, `${description} (${variable})`);
  }
  withExamples(command, 'worker', 'worker --id gpu-1 --tags gpu,fast --max-runs 2').action(
    async (flags: WorkerFlags) => {
      const { url, apiKey } = chooseConnection(flags, env, await readLogin(env));
      process.env['SERVICE_URL'] = url;
      process.env['SERVICE_API_KEY'] = apiKey;
      for (const [name, variable] of FLAGS) {
        const value = flags[name];
        if (value !== undefined) process.env[variable] = value;
      }
      await becomeProgram(join('agent', 'main.js'), []);
    },
  );
}
