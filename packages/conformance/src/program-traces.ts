import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageFolder } from '@longshore/common/settings/package-version';

/** Inputs of the runs that the kit creates: what its program does, in this order. */
export interface ProgramInputs {
  /** Names the run in the traces. */
  readonly mark: string;
  /** Lines that it prints. */
  readonly print?: readonly string[];
  /** Variables whose values it prints: in a line, in two pieces, in an event, and in its outputs. */
  readonly print_env?: readonly string[];
  readonly sleep_s?: number;
  /** A file that it waits for. */
  readonly gate?: string;
  /** Its outputs; `template`, what it found in the output file, is added. */
  readonly outputs?: object;
  /** Text that it writes to the output file as it is. */
  readonly raw_output?: string;
  /** Its exit code, 0 unless given. */
  readonly exit?: number;
}

/** A start of the program. */
export interface ProgramStart {
  readonly mark: string;
  readonly pid: number;
  /** Whether the worker's key was in its environment or its arguments. */
  readonly hasKey: boolean;
  /** Where it found its inputs. */
  readonly inputPath: string;
  readonly traceparent?: string;
  /** Its variables whose names begin with `KIT_` or `SERVICE_`. */
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
}

/** Prefix of the workers' API keys, by which the program recognises one. */
export const WORKER_KEY_START = 'kit-worker-';

/** File of the traces with a line for each start. */
export const STARTS_FILE = 'starts';

const SCRIPT = join(packageFolder(import.meta.dirname), 'dist', 'run-program.js');

/** Names of the images that the kit's runs have. */
export const IMAGES = { plain: 'plain', slowPull: 'slow-pull' } as const;

/** The kit's program in the forms that workers execute, and the traces that it leaves. */
export class ProgramTraces {
  private constructor(
    private readonly folder: string,
    /** Executes the program, whatever the image. */
    readonly command: string,
    /** Takes its time for the image `slow-pull`. */
    readonly pullCommand: string,
    /** Folder of images for the runtime `process` of our own worker. */
    readonly imagesDir: string,
  ) {}

  /** @param slowPullS seconds that the pull of `slow-pull` takes */
  static async make(base: string, slowPullS: number): Promise<ProgramTraces> {
    const folder = join(base, 'traces');
    const imagesDir = join(base, 'images');
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, STARTS_FILE), '');
    const program = `#!/bin/sh\nexec '${process.execPath}' '${SCRIPT}' '${folder}' "$@"\n`;
    const command = join(base, 'program');
    const pullCommand = join(base, 'pull');
    await writeExecutable(command, program);
    await writeExecutable(
      pullCommand,
      `#!/bin/sh\ncase "$1" in ${IMAGES.slowPull}) sleep ${slowPullS} ;; esac\n`,
    );
    for (const image of Object.values(IMAGES)) {
      await mkdir(join(imagesDir, image), { recursive: true });
      await writeExecutable(join(imagesDir, image, 'program'), program);
    }
    return new ProgramTraces(folder, command, pullCommand, imagesDir);
  }

  /** Lets the programs go on that wait for the gate. */
  async openGate(name: string): Promise<void> {
    await writeFile(join(this.folder, name), '');
  }

  /** Every start of the run's program, oldest first. */
  async readStarts(mark: string): Promise<ProgramStart[]> {
    return (await this.starts()).filter((start) => start.mark === mark);
  }

  /** Every start so far, oldest first. */
  async starts(): Promise<ProgramStart[]> {
    const text = await readFile(join(this.folder, STARTS_FILE), 'utf8');
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line): ProgramStart => JSON.parse(line))
      .map((start) => ({ ...start, pid: pidHere(start) }));
  }

  /** Clears starts and gates. Call it after the programs have ended. */
  async clear(): Promise<void> {
    for (const name of await readdir(this.folder)) await rm(join(this.folder, name));
    await writeFile(join(this.folder, STARTS_FILE), '');
  }

  /** Kills all programs that are still running. */
  async endAll(): Promise<void> {
    for (const { pid } of await this.starts()) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  }
}

/** The pid of a start as this process sees it: a program in a namespace of processes has told the one that it has there. */
function pidHere({ pid, inputPath }: ProgramStart): number {
  if (isRunning(pid) || !existsSync('/proc/self/cmdline')) return pid;
  const found = readdirSync('/proc').find(
    (name) => /^\d+$/.test(name) && isRunning(Number(name)) && hasInput(name, inputPath),
  );
  return found === undefined ? pid : Number(found);
}

function hasInput(pid: string, path: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`SERVICE_INPUT_PATH=${path}`);
  } catch {
    return false;
  }
}

/** Whether the pid is a running program of the kit. Zombies have no command line. */
export function isRunning(pid: number): boolean {
  if (existsSync('/proc/self/cmdline')) {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(SCRIPT);
    } catch {
      return false;
    }
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function writeExecutable(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await chmod(path, 0o755);
}
