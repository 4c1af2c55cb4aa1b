#!/usr/bin/env node
import { EXIT } from './cli-error.js';
import { Output } from './output.js';
import { runCli } from './run-cli.js';

const stopping = new AbortController();
let isListening = false;

/** Heard from the first call on only: the service and the worker hear signals themselves. */
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
  // Nobody reads any more: `| head`, or a closed terminal.
  stream.on('error', () => process.exit(EXIT.pipeClosed));
}

const output = new Output(process.stdout, process.stderr, process.env);
const argv = process.argv.slice(2);
process.exit(await runCli({ argv, env: process.env, stdin: process.stdin, output, stop }));
