import { spawn } from 'node:child_process';

/** User and group that a program runs as. */
export interface ProgramUser {
  readonly uid: number;
  readonly gid: number;
}

/** How a program ended; `output` is its standard output and standard error in the order they came. */
export interface ProgramResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/**
 * Environment for the database's programs: nothing of ours but the search path, so that PGPORT, PGOPTIONS,
 * LD_LIBRARY_PATH or a broken locale around the service cannot reach them.
 */
export function programEnvironment(): NodeJS.ProcessEnv {
  const path = process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
  return { PATH: `${path}:/usr/sbin:/sbin`, LC_ALL: 'C' };
}

/**
 * Runs a short-lived program to its end, in `/` and with the environment of {@link programEnvironment}.
 * It must not leave a child behind that keeps its output open. Rejects when the program cannot be started
 * (the error carries Node's `code`: ENOENT, EACCES, EPERM); any exit code is a result.
 */
export function runProgram(
  file: string,
  args: readonly string[],
  user?: ProgramUser,
): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      cwd: '/',
      env: programEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
      // A session of its own: a Ctrl-C that is meant for the service must not end pg_ctl in the middle of a stop.
      detached: true,
      ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
    });
    let output = '';
    const collect = (chunk: Buffer): void => {
      output += chunk.toString();
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, output: output.trim() }));
  });
}

/** The `code` of a system error (`'ENOENT'` ...), or undefined for anything else. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** The message of whatever was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
