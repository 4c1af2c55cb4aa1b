import { fileURLToPath } from 'node:url';
import { Option, type Command } from 'commander';
import { WORKER_SETTINGS } from '@longshore/worker/worker-settings';
import { loadEnvFile } from '@longshore/common/settings/env-file';
import { execProgram } from '../exec-program.js';
import type { CliContext } from '../cli-context.js';
import { withExamples } from '../command-kit.js';
import { readLogin } from '../config-file.js';
import { chooseConnection, type ConnectionFlags } from '../connection.js';

/** Without the address and the key, which all commands choose in the same way. */
const SETTINGS = WORKER_SETTINGS.filter(({ flag }) => flag !== undefined && flag !== 'url');

type WorkerFlags = ConnectionFlags & Readonly<Record<string, string | undefined>>;

/** `worker`: the worker program reads the flags; the connection is handed over by variables. */
export function addWorker(program: Command, { env }: CliContext): void {
  const command = program
    .command('worker')
    .description('start a worker: it claims runs and executes them; the key needs the scope worker')
    .option('--url <url>', 'the service (SERVICE_URL, else what login kept)')
    .option('--key <key>', 'the API key; process lists show it (SERVICE_API_KEY, else what login kept)');
  const options = SETTINGS.map(({ flag, env: variable, allowed, description, ...setting }) => {
    const text = `${description} Must be ${allowed}. Default: ${setting.default ?? 'unset'}. (${variable})`;
    return new Option(`--${flag} <value>`, text);
  });
  for (const option of options) command.addOption(option);
  withExamples(command, 'worker', 'worker --id gpu-1 --tags gpu,fast --max-runs 2').action(
    async (flags: WorkerFlags) => {
      loadEnvFile();
      const { url, apiKey } = chooseConnection(flags, env, await readLogin(env));
      process.env['SERVICE_URL'] = url;
      process.env['SERVICE_API_KEY'] = apiKey;
      const argv = options.flatMap((option) => {
        const value = flags[option.attributeName()];
        return value === undefined ? [] : [`${option.long}=${value}`];
      });
      await execProgram(fileURLToPath(import.meta.resolve('@longshore/worker/main')), argv);
    },
  );
}
