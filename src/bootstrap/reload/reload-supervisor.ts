import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { TreeWatcher } from './tree-watcher.js';

/** Environment variable that tells the service it was started by the supervisor, which does the reloading for it. */
export const RELOAD_CHILD = 'SERVICE_RELOAD_CHILD';

/** A service drains for at most 10 s and then stops its database: longer than both together. */
const STOP_GRACE_MS = 30_000;

/** What the supervisor runs, watches and builds with. */
export interface ReloadOptions {
  /** Script that is run by this Node. */
  readonly entry: string;
  /** Its arguments. */
  readonly argv: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Folders whose change restarts the script. */
  readonly watched: readonly string[];
  /** Script that makes the entry anew after a change, exit code 0 when it could; without one nothing is built. */
  readonly build?: string | undefined;
  /** Ends the supervision when aborted. */
  readonly signal: AbortSignal;
  /** Takes one line for people. */
  readonly say: (line: string) => void;
  /** Time a child has between SIGTERM and SIGKILL. */
  readonly stopGraceMs?: number;
  /** Quiet time after a change, see `TreeWatcher`. */
  readonly debounceMs?: number;
}

/**
 * Runs a script and restarts it gracefully whenever a watched file changes. A failed build leaves the running script
 * as it is; a script that ends by itself is started again at the next change. Resolves after the signal, once the
 * script and a build under way have ended.
 */
export async function supervise(options: ReloadOptions): Promise<void> {
  const { signal, say } = options;
  let wake: (() => void) | undefined;
  let change: string | undefined;
  const watcher = new TreeWatcher(
    options.watched,
    (path) => {
      change = path;
      wake?.();
    },
    options.debounceMs,
  );
  await watcher.start();
  const onAbort = (): void => wake?.();
  signal.addEventListener('abort', onAbort);
  let child = signal.aborted ? undefined : startChild(options);
  try {
    while (!signal.aborted) {
      if (change === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      say(`${change} changed`);
      change = undefined;
      if (options.build !== undefined && !(await runBuild(options.build, options))) {
        if (!signal.aborted) {
          say('the build failed: waiting for the next change');
        }
      } else if (change === undefined && !signal.aborted) {
        await child?.stop();
        // The signal may have come while the old one stopped.
        child = isAborted(signal) ? undefined : startChild(options);
      }
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    await watcher.close();
    await child?.stop();
  }
}

/** Keeps the compiler from believing that a signal cannot change across an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** A started script. */
interface RunningChild {
  /** Asks the process to end and resolves when it has. */
  readonly stop: () => Promise<void>;
}

function startChild(options: ReloadOptions): RunningChild {
  const service = run(options.entry, options.argv, { ...options.env, [RELOAD_CHILD]: '1' });
  let stopping = false;
  const watchEnd = async (): Promise<void> => {
    const end = await endOf(service);
    if (!stopping) {
      options.say(`the service ended (${end}): waiting for the next change`);
    }
  };
  const ended = watchEnd();
  return {
    stop: async () => {
      stopping = true;
      service.kill('SIGTERM');
      const timer = setTimeout(() => service.kill('SIGKILL'), options.stopGraceMs ?? STOP_GRACE_MS);
      await ended;
      clearTimeout(timer);
    },
  };
}

async function runBuild(script: string, { env, signal }: ReloadOptions): Promise<boolean> {
  const build = run(script, [], env);
  const stop = (): void => void build.kill('SIGTERM');
  signal.addEventListener('abort', stop);
  const end = await endOf(build);
  signal.removeEventListener('abort', stop);
  return end === 'exit code 0';
}

function run(script: string, argv: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  return spawn(process.execPath, [...process.execArgv, script, ...argv], { env, stdio: 'inherit' });
}

/** How a process ended, in words; never rejects. */
function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : signal));
  });
}

function findProject(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) {
    folder = dirname(folder);
  }
  return folder;
}

/** With sources and build tools at hand: watch the sources and build. Otherwise: watch what is built. */
function whatToWatch(): Pick<ReloadOptions, 'watched' | 'build'> {
  const project = findProject();
  const built = join(project, 'dist');
  const sources = [join(project, 'src'), join(project, 'migrations')].filter((folder) => existsSync(folder));
  const build = join(project, 'scripts', 'build-if-needed.mjs');
  const canBuild = existsSync(build) && existsSync(join(project, 'node_modules', '@nestjs', 'cli'));
  if (sources.length > 0 && canBuild && import.meta.dirname.startsWith(built + sep)) {
    return { watched: sources, build };
  }
  return { watched: [join(import.meta.dirname, '..', '..', '..')] };
}

function sayOnStandardError(line: string): void {
  process.stderr.write(`reload: ${line}\n`);
}

/**
 * Runs the service as a child and restarts it on changes, until SIGTERM or SIGINT. `main.js` calls this instead of
 * starting the service when reloading is asked for and the environment lacks `RELOAD_CHILD`.
 * @param argv arguments of the service, without node and script
 * @param env environment of the service
 * @returns the exit code for the process: 0
 */
export async function runWithReload(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const abort = new AbortController();
  const onSignal = (): void => abort.abort();
  // Stay for good: npm and the terminal may deliver the same signal twice.
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  const { watched, build } = whatToWatch();
  sayOnStandardError(`watching ${watched.join(', ')}`);
  await supervise({
    entry: join(import.meta.dirname, '..', '..', 'main.js'),
    argv,
    env,
    watched,
    build,
    signal: abort.signal,
    say: sayOnStandardError,
  });
  return 0;
}
