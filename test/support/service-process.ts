import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chown, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEndOfFile } from './clean-up.js';
import { endServer, makeTestDirectory } from './test-cluster.js';

/** Longest wait for a start or an end: not for the usual case but for a machine that is busy with other tests. */
const PATIENCE_MS = 240_000;

const READY = /listening on (https?:\/\/[^\s"\\]+)/;

/** The checkout: where package.json, scripts and examples are. */
export const PROJECT = dirname(dirname(import.meta.dirname));

/** The built service and demo. */
export const COMPILED = join(PROJECT, 'dist');

/** Entry of the built service. */
export const SERVICE_MAIN = join(COMPILED, 'src', 'main.js');

/** How a process under test is to be started. */
export interface ProcessOptions {
  /** On top of this process's environment without its SERVICE_*, DATABASE_URL and test variables. */
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** Whom it runs as; default: who runs the tests. */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** Working directory; default: a new one of its own, so that no `.env` is read. */
  readonly cwd?: string;
  /** Whether its standard input is a pipe that the test writes to; default: it is empty. */
  readonly takesInput?: boolean;
  /** Descriptor that becomes its standard output; default: a pipe into `output`. */
  readonly stdout?: number;
}

/** How the service is to be started. */
export interface ServiceOptions extends ProcessOptions {
  /** The service's data directory, kept afterwards; default: a new one that is removed with the process. */
  readonly dataDir?: string;
  /** Entry of another version of the service; default: that of the tree under test. */
  readonly main?: string;
}

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** What a process has written so far. */
export interface Outputs {
  /** Standard output and standard error. */
  readonly output: string;
  readonly stdout: string;
  readonly stderr: string;
}

/** A process under test, in a process group of its own; when the test file ends, it is ended too. */
export interface TestProcess extends Outputs {
  readonly child: ChildProcess;
  readonly pid: number;
  /** Resolves when it has ended and everything it wrote is in `output`. */
  readonly exited: Promise<Exit>;
  /** Sends a signal (to the whole group if asked) and goes on; harmless when it has ended. */
  signal(signal: NodeJS.Signals, target?: 'process' | 'group'): void;
  /** Waits until the text shows up in the output. @throws AssertionError when it ends first or takes too long */
  untilOutput(pattern: RegExp): Promise<RegExpExecArray>;
}

/** The built service as a process of its own. */
export interface ServiceProcess extends TestProcess {
  /** Where it answers. */
  readonly url: string;
  /** A key with the scope admin. */
  readonly adminKey: string;
  readonly dataDir: string;
  /** Where its embedded cluster is. */
  readonly cluster: string;
  /** SIGTERM; answers the exit code once it has ended. */
  stop(): Promise<number | null>;
  /** Sends the signal, SIGKILL unless given, and waits for the end. */
  kill(signal?: NodeJS.Signals): Promise<Exit>;
}

const running = new Set<TestProcess>();
const directories: string[] = [];

atEndOfFile(async () => {
  for (const process of running) process.signal('SIGKILL', 'group');
  await Promise.all([...running].map((process) => process.exited));
  for (const directory of directories.splice(0)) await removeDataDir(directory);
});

/**
 * Starts the built service on a free port, on an embedded PostgreSQL unless DATABASE_URL is given, and waits until it
 * listens.
 * @throws AssertionError with its output when it ends before
 */
export async function startService(options: ServiceOptions = {}): Promise<ServiceProcess> {
  return whenListening(await launchService(options));
}

/** The same, for a process that was launched before: {@link launchService}. */
export async function whenListening(launched: LaunchedService): Promise<ServiceProcess> {
  const [, url = ''] = await launched.untilOutput(READY);
  const adminKey = launched.givenKey ?? (await readFile(join(launched.dataDir, 'admin-key'), 'utf8')).trim();
  const kill = (signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> => {
    launched.signal(signal);
    return withPatience(launched.exited, () => `the service does not end on ${signal}: ${launched.output}`);
  };
  const stop = async (): Promise<number | null> => (await kill('SIGTERM')).code;
  return Object.assign(launched, { url, adminKey, cluster: join(launched.dataDir, 'postgres'), kill, stop });
}

/** A service that may still be starting, or may be about to fail. */
export interface LaunchedService extends TestProcess {
  readonly dataDir: string;
  /** An admin key of SERVICE_API_KEYS, if there is one. */
  readonly givenKey: string | undefined;
}

/** Starts the built service and does not wait for anything. */
export async function launchService(options: ServiceOptions = {}): Promise<LaunchedService> {
  const dataDir = options.dataDir ?? (await makeDataDir(options.user));
  const keys = options.env?.['SERVICE_API_KEYS'] ?? '';
  const process = await launch(options.main ?? SERVICE_MAIN, {
    ...options,
    // On a busy machine a worker of a test may be silent for longer than the default.
    env: { SERVICE_PORT: '0', SERVICE_DATA_DIR: dataDir, SERVICE_WORKER_TIMEOUT: '600', ...options.env },
  });
  return Object.assign(process, { dataDir, givenKey: /(?:^|,)admin:([^,]+)/.exec(keys)?.[1] });
}

/** Runs the built service to its end, for starts that are to fail. */
export async function runService(options: ServiceOptions = {}): Promise<Exit & Outputs> {
  const launched = await launchService(options);
  const exit = await withPatience(launched.exited, () => `the service does not end: ${launched.output}`);
  return { ...exit, output: launched.output, stdout: launched.stdout, stderr: launched.stderr };
}

/** Starts a script of the project with this Node, or another program when `script` is a list. */
export async function launch(
  script: string | readonly [string, ...string[]],
  { env = {}, args = [], user, cwd, takesInput = false, stdout }: ProcessOptions = {},
): Promise<TestProcess> {
  const [program, ...first] = typeof script === 'string' ? [process.execPath, script] : script;
  const child = spawn(program, [...first, ...args], {
    cwd: cwd ?? (await makeDataDir(user)),
    env: { ...cleanEnvironment(), ...env },
    stdio: [takesInput ? 'pipe' : 'ignore', stdout ?? 'pipe', 'pipe'],
    detached: true,
    ...user,
  });
  const launched = new LaunchedProcess(child);
  running.add(launched);
  void launched.exited.then(() => running.delete(launched));
  await once(child, 'spawn');
  return launched;
}

/** A new data directory, removed when the test file ends; a server that still runs in it is ended. */
export async function makeDataDir(owner?: ProcessOptions['user']): Promise<string> {
  const directory = await makeTestDirectory('process-');
  if (owner !== undefined) await chown(directory, owner.uid, owner.gid);
  directories.push(directory);
  return directory;
}

/** Waits until the condition holds. @throws AssertionError after four minutes */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `waited in vain: ${what}`);
    await sleep(25);
  }
}

/** Settings of the person who runs the tests must not reach what is tested. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^(?:SERVICE_|OTEL_|AWS_|DATABASE_URL$|TEST_DATABASE_URL$|NODE_TEST_CONTEXT$|npm_)/.test(name),
    ),
  );
}

/**
 * Processes with one of the texts in their command line or environment, but for the tests themselves; none where there
 * is no /proc.
 */
export async function processesNaming(
  texts: readonly string[],
): Promise<{ readonly pid: number; readonly command: string }[]> {
  const found: { pid: number; command: string }[] = [];
  for (const pid of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (texts.some((text) => command.includes(text) || environment.includes(text))) {
      found.push({ pid: Number(pid), command: command.replaceAll('\0', ' ') });
    }
  }
  return found;
}

async function removeDataDir(directory: string): Promise<void> {
  // Children of a process that was killed live on in groups of their own.
  for (const { pid, command } of await processesNaming([directory])) {
    if (!command.includes('bin/postgres')) killHard(pid);
  }
  await endServer(join(directory, 'postgres'));
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
}

function killHard(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

async function withPatience<T>(promise: Promise<T>, complaint: () => string): Promise<T> {
  const abort = new AbortController();
  const late = sleep(PATIENCE_MS, undefined, { signal: abort.signal }).then(() => assert.fail(complaint()));
  try {
    return await Promise.race([promise, late]);
  } finally {
    abort.abort();
    late.catch(() => undefined);
  }
}

class LaunchedProcess implements TestProcess {
  output = '';
  stdout = '';
  stderr = '';
  readonly pid: number;
  readonly exited: Promise<Exit>;

  constructor(readonly child: ChildProcess) {
    this.pid = child.pid ?? 0;
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        this[name] += text;
        this.output += text;
      });
    }
    this.exited = new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal }));
    });
  }

  signal(signal: NodeJS.Signals, target: 'process' | 'group' = 'process'): void {
    if (this.pid === 0) return;
    try {
      process.kill(target === 'group' ? -this.pid : this.pid, signal);
    } catch {
      // It has ended already.
    }
  }

  async untilOutput(pattern: RegExp): Promise<RegExpExecArray> {
    let ended = false;
    void this.exited.then(() => (ended = true));
    let found: RegExpExecArray | null = null;
    await until(() => {
      found = pattern.exec(this.output);
      assert.ok(found !== null || !ended, `it ended before ${pattern} showed up: ${this.output}`);
      return found !== null;
    }, `${pattern} in ${this.output}`);
    return found ?? assert.fail();
  }
}
