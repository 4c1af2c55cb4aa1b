import type { Readable } from 'node:stream';
import type { ExitCode } from './cli-error.js';
import type { Output } from './output.js';

/** What the commands get from the process: replaced in tests. */
export interface CliContext {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly output: Output;
  /** Arguments behind the program's name. */
  readonly argv: readonly string[];
  /** Sets the exit code of a command that ends without an error; 0 unless set. */
  end(code: ExitCode): void;
  /** Aborts at Ctrl-C. Signals are heard from the first call on. */
  stop(): AbortSignal;
}
