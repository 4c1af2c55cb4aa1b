import { spawn } from 'node:child_process';

export interface ProgramUser {
  readonly uid: number;
  readonly gid: number;
}

/** `output` is standard output and standard error. */
export interface ProgramResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/** Environment of the database's programs: only the search path, without PGPORT, PGOPTIONS, LD_LIBRARY_PATH or a locale. */
export function programEnvironment(): NodeJS.ProcessEnv {
  const path = process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
  return { PATH: `${path}:/usr/sbin:/sbin`, LC_ALL: 'C' };
}

/**
 * Runs a short-lived program in `/` with {@link programEnvironment}. It must not leave a child behind that keeps its output
 * open. Any exit code is a result.
 * @throws Error of Node.js when the program cannot be started
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
      // In its own session, so that Ctrl-C does not interrupt initdb.
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

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
