#!/usr/bin/env node
import { needsDispatcher, useEnvironmentProxy } from '@longshore/common/environment-proxy';
import { SettingsError } from '@longshore/common/settings/setting';
import { CommanderError } from 'commander';
import { CliError, EXIT, type ExitCode } from './cli-error.js';
import { Output } from './terminal/output.js';
import { checkCommandNames, makeProgram } from './program.js';
import { errorText } from '@longshore/common/errors';
import { oneLine } from '@longshore/common/shown-text';

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
let exitCode: ExitCode = EXIT.ok;

/** Runs the command line. An error is one line on standard error. */
async function main(): Promise<void> {
  try {
    const { env, stdin } = process;
    if (needsDispatcher(env)) await useEnvironmentProxy(env);
    const program = makeProgram({ env, stdin, output, argv, stop, end: (code) => (exitCode = code) });
    checkCommandNames(program, argv);
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has printed its message.
      exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
      return;
    }
    output.live.clear();
    const isUsage = error instanceof SettingsError;
    const text = isUsage ? error.problems.join('; ') : errorText(error);
    output.note(`longshore: ${oneLine(text)}`);
    exitCode = isUsage ? EXIT.usage : error instanceof CliError ? error.exitCode : EXIT.failed;
  }
}

await main();
process.exit(exitCode);
