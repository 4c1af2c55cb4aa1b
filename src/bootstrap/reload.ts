import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, sep } from 'node:path';
import { standardError } from '@longshore/common/line-output';
import { packageFolder } from '@longshore/common/settings/package-version';
import { watch } from 'chokidar';

/** Environment variable of the service that the reload supervisor starts. */
export const RELOAD_CHILD = 'SERVICE_RELOAD_CHILD';

/** Longer than the service's drain (10 s) and the stop of its database together. */
const STOP_TIMEOUT_MS = 30_000;

export interface ReloadOptions {
  /** Script to run. */
  readonly entry: string;
  readonly argv: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Folder that contains every watched folder. */
  readonly project: string;
  /** Folders whose changes restart the script, relative to the project; they may be absent. */
  readonly watched: readonly string[];
  /** Script that rebuilds the entry after a change; exit code 0 on success. */
  readonly build?: string | undefined;
  /** Ends the supervision. */
  readonly signal: AbortSignal;
  /** Prints one line. */
  readonly say: (line: string) => void;
  readonly stopTimeoutMs?: number;
  /** Time without further changes before a restart. */
  readonly debounceMs?: number;
}

/**
 * Runs a script and restarts it gracefully when a watched file changes. A failed build keeps the running script; a script
 * that ends by itself is started again at the next change. Resolves after the signal, once all child processes have ended.
 *
 * `node --watch` of Node.js 20 sees none of the modules that only server processes load, no second replacement of a file on
 * Linux, and waits for ever for a script that ignores SIGTERM.
 */
export async function supervise(options: ReloadOptions): Promise<void> {
  const { signal, build, debounceMs = 200 } = options;
  let changed: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let wake: (() => void) | undefined;
  const watcher = watchFolders(options);
  watcher.on('all', (event, path) => {
    if (event === 'addDir') return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      changed = path;
      wake?.();
    }, debounceMs);
  });
  await new Promise<void>((resolve) => watcher.once('ready', resolve));
  const onAbort = (): void => wake?.();
  signal.addEventListener('abort', onAbort);
  let child = signal.aborted ? undefined : startChild(options);
  while (!signal.aborted) {
    if (changed === undefined) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      continue;
    }
    options.say(`${changed} changed`);
    changed = undefined;
    if (build !== undefined && (await runBuild(build, options)) !== 'exit code 0') {
      if (!signal.aborted) options.say('the build failed: waiting for the next change');
      continue;
    }
    await child?.stop();
    child = signal.aborted ? undefined : startChild(options);
  }
  clearTimeout(timer);
  signal.removeEventListener('abort', onAbort);
  await Promise.all([watcher.close(), child?.stop()]);
}

/** Watches from the project's folder, so that a watched folder may be absent, replaced or removed. */
function watchFolders({ project, watched }: ReloadOptions): ReturnType<typeof watch> {
  const folders = watched.map((folder) => join(project, folder));
  return watch(project, {
    ignoreInitial: true,
    ignored: (path) =>
      path !== project &&
      (!folders.some((folder) => path === folder || path.startsWith(folder + sep)) ||
        /[/\\](\.[^/\\]*|[^/\\]*~|node_modules)$/.test(path)),
  });
}

function startChild(options: ReloadOptions): { readonly stop: () => Promise<void> } {
  const child = run(options.entry, options.argv, { ...options.env, [RELOAD_CHILD]: '1' });
  let isStopping = false;
  const report = async (): Promise<void> => {
    const end = await untilEnd(child);
    if (!isStopping) options.say(`the service ended (${end}): waiting for the next change`);
  };
  const ended = report();
  return {
    stop: async () => {
      isStopping = true;
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), options.stopTimeoutMs ?? STOP_TIMEOUT_MS);
      await ended;
      clearTimeout(timer);
    },
  };
}

async function runBuild(script: string, { env, signal }: ReloadOptions): Promise<string> {
  const build = run(script, [], env);
  const stop = (): void => void build.kill('SIGTERM');
  signal.addEventListener('abort', stop);
  const end = await untilEnd(build);
  signal.removeEventListener('abort', stop);
  return end;
}

function run(script: string, argv: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  return spawn(process.execPath, [...process.execArgv, script, ...argv], { env, stdio: 'inherit' });
}

function untilEnd(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
}

function say(line: string): void {
  standardError.write(`reload: ${line}\n`);
}

/**
 * Runs the service as a child process and restarts it on changes until the signal aborts. In a checkout it watches and
 * builds the sources, otherwise it watches the compiled files.
 * @returns the exit code: 0
 */
export async function runWithReload(argv: readonly string[], signal: AbortSignal): Promise<number> {
  const project = packageFolder(import.meta.dirname);
  const build = join(project, 'scripts', 'build-if-needed.mjs');
  const sources = ['src', 'migrations'].filter((folder) => existsSync(join(project, folder)));
  const canBuild =
    sources.length > 0 && existsSync(build) && existsSync(join(project, 'node_modules', '@nestjs', 'cli'));
  const watched = canBuild ? sources : ['dist'];
  say(`watching ${watched.map((folder) => join(project, folder)).join(', ')}`);
  await supervise({
    entry: join(import.meta.dirname, '..', 'main.js'),
    argv,
    env: process.env,
    project,
    watched,
    build: canBuild ? build : undefined,
    signal,
    say,
  });
  return 0;
}
