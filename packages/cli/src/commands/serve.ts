import type { Command } from 'commander';
import { serviceProgram } from '@longshore/common/service-program';
import { execProgram } from '../exec-program.js';
import type { CliContext } from '../cli-context.js';

/** `serve`: the service itself reads all arguments, `--help` too, so that they mean the same however it is started. */
export function addServe(program: Command, { argv }: Pick<CliContext, 'argv'>): void {
  program
    .command('serve')
    .description('start the service: every setting has a flag and a variable, the flag wins')
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      await execProgram(serviceProgram(), argv.slice(argv.indexOf('serve') + 1));
    });
}
