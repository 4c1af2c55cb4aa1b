import { writeFileSync } from 'node:fs';
import { errorCode, errorText } from '@longshore/common/errors';
import { useEnvironmentProxy } from '@longshore/common/environment-proxy';
import { SYSTEM_CLOCK } from '../process/clock.js';
import { RunFault } from '../runtime/runtime.js';
import { formatLine, RUN_FAULT_EXIT } from './messages.js';
import { transferIn, transferOut } from './transfer.js';

/** What Kubernetes shows as the message of a container that has ended, and its limit in bytes. */
const LAST_WORDS = '/dev/termination-log';
const MAX_WORDS = 4_000;

const stopping = new AbortController();
// Process 1 ignores signals by default.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopping.abort());

// The helper of a pod: `in FOLDER ROOT STAGING` before the program, `out FOLDER ROOT` beside it.
const [what, folder = '', root = '', staging = ''] = process.argv.slice(2);
const parts = {
  folder,
  root,
  clock: SYSTEM_CLOCK,
  random: Math.random,
  // No line may be lost: it waits for a slow reader.
  say: (line: Parameters<typeof formatLine>[0]) => writeFileSync(1, `${formatLine(line)}\n`),
};
let exitCode = 0;
try {
  await useEnvironmentProxy(process.env);
  if (what === 'in') await transferIn(parts, staging, stopping.signal);
  else await transferOut(parts, stopping.signal);
} catch (error) {
  exitCode = error instanceof RunFault ? RUN_FAULT_EXIT : 1;
  const message = errorText(error) || errorCode(error);
  writeFileSync(LAST_WORDS, Buffer.from(message).subarray(0, MAX_WORDS));
}
process.exit(exitCode);
