import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { serviceProgram } from '@longshore/common/service-program';
import { loadEnvFile } from '@longshore/common/settings/env-file';
import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import { withConnectionFlags, withExamples, type CliContext } from '../command-kit.js';
import { chooseConnection, readLogin, type ConnectionFlags } from '../service/connection.js';

/** `serve` and `worker`: programs that read their own flags, so that a flag means the same however they are started. */
export function addPrograms(program: Command, { env }: CliContext): void {
  const serve = program
    .command('serve')
    .description('start the service: every setting has a flag and a variable, the flag wins')
    .action(() => execProgram(serviceMain(), serve.args));
  forwardsFlags(serve, serviceMain, 'serve', 'serve --port 8080 --workers 2');
  const worker = withConnectionFlags(program.command('worker'))
    .description('start a worker: it claims runs and executes them; the key needs the scope worker')
    .action(async (flags: ConnectionFlags) => {
      loadEnvFile();
      const { url, apiKey } = chooseConnection(flags, env, await readLogin(env));
      process.env['SERVICE_URL'] = url;
      process.env['SERVICE_API_KEY'] = apiKey;
      delete process.env['SERVICE_API_KEY_FILE'];
      await execProgram(workerMain(), worker.args);
    });
  forwardsFlags(worker, workerMain, 'worker', 'worker --id gpu-1 --tags gpu,fast --max-runs 2');
}

/** Leaves unknown flags to the program, and adds the program's help to that of the command. */
function forwardsFlags(command: Command, main: () => string, ...examples: string[]): void {
  command.usage('[flags]').allowUnknownOption().allowExcessArguments();
  command.addHelpText('after', () => {
    const help = execFileSync(process.execPath, [main(), '--help'], { encoding: 'utf8' });
    return `\n${help.replace(/^Usage: .*\n\n/, '').trimEnd()}`;
  });
  withExamples(command, ...examples);
}

function serviceMain(): string {
  const main = serviceProgram();
  if (existsSync(main)) return main;
  throw usageError('the service is not installed here: install the package longshore');
}

function workerMain(): string {
  return fileURLToPath(import.meta.resolve('@longshore/worker/main'));
}

/** Loads the program in place of this one: it handles signals and ends the process itself. */
async function execProgram(main: string, argv: readonly string[]): Promise<void> {
  // A closed output ends commands of this program, but neither the service nor a worker.
  for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners('error');
  process.argv.splice(1, process.argv.length, main, ...argv);
  await import(pathToFileURL(main).href);
}
