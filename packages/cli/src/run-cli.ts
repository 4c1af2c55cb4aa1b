import { CommanderError } from 'commander';
import type { CliContext } from './cli-context.js';
import { CliError, EXIT, type ExitCode } from './cli-error.js';
import { makeProgram } from './program.js';

/** Carries out a command line. @returns the exit code; what went wrong is on standard error, on one line */
export async function runCli(context: Omit<CliContext, 'end'>): Promise<ExitCode> {
  let code: ExitCode = EXIT.ok;
  const { output, argv } = context;
  try {
    await makeProgram({ ...context, end: (given) => (code = given) }).parseAsync(argv, { from: 'user' });
    return code;
  } catch (error) {
    // It has printed what it has to say.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    output.live.clear();
    output.note(`longshore: ${error instanceof Error ? error.message : String(error)}`);
    return error instanceof CliError ? error.exitCode : EXIT.failed;
  }
}
