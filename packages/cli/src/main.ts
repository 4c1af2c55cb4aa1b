#!/usr/bin/env node
import { CommanderError } from 'commander';
import { CliError, EXIT, type ExitCode } from './cli-error.js';
import type { CliContext } from './command-kit.js';
import { Output } from './output.js';
import { makeProgram } from './program.js';

const stopping = new AbortController();
let isListening = false;

/** Installs signal handlers with the first call only: the service and the worker handle signals themselves. */
function stop(): AbortSignal {
  if (!isListening) {
    isListening = true;
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        if (stopping.signal.aborted) process.exit(EXIT.interrupted);
        stopping.abort();
      });
    }
  }
  return stopping.signal;
}

for (const stream of [process.stdout, process.stderr]) {
  // Standard output was closed: `| head`, or a closed terminal.
  stream.on('error', () => process.exit(EXIT.pipeClosed));
}

const output = new Output(process.stdout, process.stderr, process.env);
const argv = process.argv.slice(2);
process.exit(await runCli({ argv, env: process.env, stdin: process.stdin, output, stop }));

/** Runs a command line. @returns the exit code; an error is one line on standard error */
export async function runCli(context: Omit<CliContext, 'end'>): Promise<ExitCode> {
  let code: ExitCode = EXIT.ok;
  const { output, argv } = context;
  try {
    await makeProgram({ ...context, end: (given) => (code = given) }).parseAsync(argv, { from: 'user' });
    return code;
  } catch (error) {
    // Commander has printed its message.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    output.live.clear();
    output.note(`longshore: ${error instanceof Error ? error.message : String(error)}`);
    return error instanceof CliError ? error.exitCode : EXIT.failed;
  }
}
