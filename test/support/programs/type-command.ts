import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { CliError } from '../../../packages/cli/src/cli-error.js';
import { makeProgram } from '../../../packages/cli/src/program.js';
import { Output } from '../../../packages/cli/src/terminal/output.js';

/** How a command line ended, and what it printed. */
interface CommandEnd {
  readonly code: number;
  readonly printed: string;
  /** What it wrote to standard error, a terminal. */
  readonly notes: string;
  readonly error: string;
}

/** A person who types command lines. */
export type Typed = (...argv: readonly string[]) => Promise<CommandEnd>;

/** Runs a command line in this process. */
export async function typeCommand(env: NodeJS.ProcessEnv, argv: readonly string[]): Promise<CommandEnd> {
  const [out, err] = [new PassThrough(), Object.assign(new PassThrough(), { isTTY: true })];
  let code = 0;
  const program = makeProgram({
    env,
    stdin: Readable.from(['']),
    output: new Output(out, err, {}),
    argv,
    stop: () => new AbortController().signal,
    end: (given) => (code = given),
  });
  let error = '';
  await program.parseAsync(argv, { from: 'user' }).catch((thrown: unknown) => {
    assert.ok(thrown instanceof CliError, String(thrown));
    ({ exitCode: code, message: error } = thrown);
  });
  return { code, printed: String(out.read() ?? '').trim(), notes: String(err.read() ?? ''), error };
}
