import { execFile, spawn } from 'node:child_process';
import { constants, accessSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { parseImageReference } from '../docker/images/image-reference.js';
import { ProcessContainer, type PipedChild, Sentinel } from './process.container.js';
import { ProcessNotes, type ProcessNote } from './process-notes.js';
import type { FolderSpec, RunFolder, RunFolders } from './run-folders.js';
import { RunProcesses, hasEnvironment, processStamp, processTrees } from './process-table.js';
import { errorText, errorCode } from '@longshore/common/errors';
import { FILES_ROOT } from '@longshore/common/variable-names';
import {
  EngineFault,
  RunFault,
  workerEnvironment,
  type ContainerSpec,
  type RunningContainer,
  type Runtime,
  type RuntimeLog,
  type FoundContainer,
} from '../runtime.js';

const PROGRAM = 'program';
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

/** How long a probe may take, in milliseconds. */
const PROBE_MS = 30_000;

export interface ProcessRuntimeOptions {
  /** Folder with one folder per image, each holding the executable file `program`. */
  readonly imagesDir: string;
  readonly folders: RunFolders;
  readonly log: RuntimeLog;
  /** Source of PATH, LANG and TZ; programs get no other variable of it. */
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Runs the programs of example images as plain child processes, for machines without a container engine. It isolates
 * nothing: no limits, and the program may do what the worker's user may. On Linux, what a program has started ends with it, unless
 * it has cleared its environment and its parent has ended before.
 */
export class ProcessRuntime implements Runtime {
  readonly name = 'process';
  readonly containerEngine = null;
  readonly capabilities = [
    'env',
    'command',
    'secrets',
    'secrets_from',
    'cpu_millis',
    'gpus',
    'artifacts',
  ] as const;
  private readonly imagesDir: string;
  private readonly notes: ProcessNotes;
  private readonly running = new Set<number>();
  /** Leaders of programs with processes that could not be killed. */
  private readonly notEnded = new Set<number>();
  /** Paths in the last warning about folders that cannot be removed. */
  private kept = '';
  private readonly sentinel = new Sentinel();

  /** @throws Error when the folder of images or of the runs cannot be used */
  constructor(private readonly options: ProcessRuntimeOptions) {
    this.imagesDir = resolve(options.imagesDir);
    if (!isFolder(this.imagesDir))
      throw new Error(`SERVICE_WORKER_IMAGES_DIR: '${options.imagesDir}' is no folder`);
    options.folders.open();
    this.notes = new ProcessNotes(options.folders.notes);
  }

  /** The folder of images is the operator's. */
  keep(): () => void {
    return () => undefined;
  }

  async removeUnusedImages(): Promise<void> {}

  async pull(image: string, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    this.findProgram(image);
    return image;
  }

  async start(spec: ContainerSpec, signal?: AbortSignal): Promise<RunningContainer> {
    const program = this.findProgram(spec.image);
    const folder = await this.createFolder(spec);
    try {
      signal?.throwIfAborted();
      return await this.spawn(program, spec, folder);
    } catch (error) {
      await folder.remove();
      throw error;
    }
  }

  /** Notes and folders belong to one lock of an id, so there is nothing of others. */
  removeAbandoned(): Promise<number> {
    return Promise.resolve(0);
  }

  async probe(): Promise<void> {
    const nothing = { inputs: {}, outputTemplate: {}, artifacts: null };
    const folder = await this.createFolder({ runId: 'probe', attempt: 1, ...nothing });
    try {
      await promisify(execFile)(process.execPath, ['--version'], { cwd: folder.path, timeout: PROBE_MS });
    } finally {
      await folder.remove();
    }
  }

  /** Programs find their GPUs themselves. */
  async probeGpus(): Promise<void> {}

  /** It keeps no limits, which its documentation says. */
  async discardedLimits(): Promise<readonly []> {
    return [];
  }

  /** Programs end with their worker, or at the start of the next one. */
  async findLeft(): Promise<readonly FoundContainer[]> {
    return [];
  }

  async adopt(): Promise<never> {
    throw new Error('programs of the runtime process are not gone on with');
  }

  removeFound(): Promise<never> {
    return this.adopt();
  }

  async removeLeftovers(): Promise<number> {
    const notes = this.notes.list().filter(({ pid }) => !this.running.has(pid));
    const removed = await Promise.all(
      notes.map(async ({ pid, stamp, mark }) => {
        const group = isGroupOf({ pid, stamp, mark }) ? pid : null;
        const processes = new RunProcesses(mark, group);
        const isAlive = group !== null || processes.isAlive;
        return (await this.end(pid, processes)) && isAlive;
      }),
    );
    await this.removeFolders();
    return removed.filter(Boolean).length;
  }

  /** Ends the processes of a program, and removes its note if none is left. @returns whether none is left; never rejects */
  private async end(pid: number, processes: RunProcesses): Promise<boolean> {
    try {
      await processes.kill();
      this.notes.remove(pid);
      this.notEnded.delete(pid);
      return true;
    } catch (error) {
      // The next search for leftovers tries again.
      if (!this.notEnded.has(pid))
        this.options.log.warn({ pid, error: errorText(error) }, 'a program has not ended');
      this.notEnded.add(pid);
      return false;
    } finally {
      this.running.delete(pid);
    }
  }

  private async createFolder(spec: FolderSpec): Promise<RunFolder> {
    try {
      return await this.options.folders.create(spec);
    } catch (error) {
      if (error instanceof RunFault || error instanceof EngineFault) throw error;
      throw new EngineFault(
        `The folder of the run could not be created (${errorCode(error) || 'unknown reason'})`,
        {
          cause: error,
        },
      );
    }
  }

  /** Folders that stay do no harm but take space. */
  private async removeFolders(): Promise<void> {
    const { folders, log } = this.options;
    const { removed, kept } = await folders.removeLeftovers();
    if (removed > 0) log.info({ removed }, 'removed run folders that no run uses');
    if (kept.length > 0 && kept.join() !== this.kept)
      log.warn({ kept: kept.slice(0, 10) }, 'run folders that no run uses cannot be removed');
    this.kept = kept.join();
  }

  private async spawn(program: string, spec: ContainerSpec, folder: RunFolder): Promise<RunningContainer> {
    this.sentinel.start();
    const [file = program, ...own] = spec.command ?? [];
    const startedAtMs = Date.now();
    const child = spawnPiped(spec.image, file, [...own, ...(spec.args ?? [])], {
      cwd: folder.path,
      env: this.environment(folder, spec),
    });
    const { pid } = child;
    if (pid === undefined) {
      const error = await new Promise<unknown>((settle) => child.once('error', settle));
      throw startProblem(spec.image, error);
    }
    // An error after the start (a signal that cannot be sent) has no bearing on how the program ends.
    child.on('error', () => undefined);
    this.running.add(pid);
    const mark = inputEntry(folder.path);
    const processes = new RunProcesses(mark, pid);
    const onEnd = async (): Promise<void> => void (await this.end(pid, processes));
    const { sentinel } = this;
    const container = new ProcessContainer({ child, processes, folder, startedAtMs, sentinel, onEnd });
    try {
      this.notes.write({ pid, stamp: processStamp(pid), mark });
    } catch (error) {
      await container.stop(0);
      throw error;
    }
    return container;
  }

  /**
   * The program of an image: the last segment of the reference's path names its folder.
   * @throws RunFault that says which images there are, or that the program is not executable
   */
  private findProgram(image: string): string {
    const { name } = parseImageReference(image);
    const program = join(this.imagesDir, name, PROGRAM);
    const state = readState(program);
    if (state === 'executable') return program;
    if (state === 'not executable') {
      throw new RunFault(`Image '${image}' cannot be run: '${name}/${PROGRAM}' is not executable: chmod +x`, {
        reported: 'image',
      });
    }
    const known = readdirSync(this.imagesDir).filter(
      (entry) => readState(join(this.imagesDir, entry, PROGRAM)) === 'executable',
    );
    throw new RunFault(
      `Image '${image}' was not found: the process runtime has ${known.toSorted().join(', ') || 'none'} ` +
        `(a folder with an executable file '${PROGRAM}' each)`,
      { reported: 'image' },
    );
  }

  private environment({ path: folder, filesRoot }: RunFolder, spec: ContainerSpec): NodeJS.ProcessEnv {
    const { PATH = DEFAULT_PATH, LANG, TZ } = this.options.env;
    return {
      PATH,
      HOME: folder,
      ...(LANG === undefined ? {} : { LANG }),
      ...(TZ === undefined ? {} : { TZ }),
      ...spec.env,
      ...workerEnvironment(spec, spec.limits, folder),
      ...(spec.artifacts !== null && { [FILES_ROOT]: filesRoot }),
      ...visibleGpus(spec.limits.gpuIds),
    };
  }
}

/** The entry that marks a run's processes. */
function inputEntry(folder: string): string {
  return `SERVICE_INPUT_PATH=${join(folder, 'input.json')}`;
}

/**
 * Whether the group of the note is still that of its run. The pid may be reused: the stamp identifies the leader, and an
 * environment with the run's folder identifies a group whose leader has ended.
 */
function isGroupOf({ pid, stamp, mark }: ProcessNote): boolean {
  const now = processStamp(pid);
  if (now !== null) return now === stamp;
  return processTrees((one) => hasEnvironment(one.pid, mark)).some(({ group }) => group === pid);
}

function readState(program: string): 'executable' | 'not executable' | 'absent' {
  try {
    if (!statSync(program).isFile()) return 'absent';
  } catch {
    return 'absent';
  }
  try {
    accessSync(program, constants.X_OK);
    return 'executable';
  } catch {
    return 'not executable';
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Errors that every machine would report: no interpreter, no permission, no program, too large an environment. */
const BAD_PROGRAM: ReadonlySet<unknown> = new Set([
  'ENOENT',
  'EACCES',
  'ENOEXEC',
  'ENOTDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'E2BIG',
]);

/** Some errors are thrown, others emitted: {@link startProblem} */
function spawnPiped(
  image: string,
  file: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): PipedChild {
  try {
    return spawn(file, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw startProblem(image, error);
  }
}

function startProblem(image: string, error: unknown): Error {
  const code = errorCode(error) || 'unknown reason';
  const message = `The program of image '${image}' could not be started (${code})`;
  return BAD_PROGRAM.has(code) ? new RunFault(message) : new EngineFault(message);
}

/** Programs that use CUDA see only these GPUs, numbered as nvidia-smi numbers them. */
export function visibleGpus(ids: readonly number[]): NodeJS.ProcessEnv {
  return { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: ids.join(',') };
}
