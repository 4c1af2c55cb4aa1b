import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { launch, makeDataDir, PROJECT, type TestProcess } from '../service-process.js';

/** Compiled main file of the worker. */
export const WORKER_MAIN = join(PROJECT, 'packages', 'worker', 'dist', 'main.js');

/** Whom a worker works for, and as who. */
export interface WorkerOptions {
  /** Where it reaches the service. */
  readonly url: string;
  readonly key: string;
  readonly id: string;
  readonly env?: Readonly<Record<string, string>>;
  /** As in `ProcessOptions`. */
  readonly stdout?: number;
  /** Entry of another version of the worker; default: that of the tree under test. */
  readonly main?: string;
}

/** Programs that stand in for images, and the record of their starts. */
export class ScriptImages {
  private constructor(
    /** Holds one folder per image. */
    readonly folder: string,
    private readonly record: string,
  ) {}

  static async make(): Promise<ScriptImages> {
    const base = await makeDataDir();
    const folder = join(base, 'images');
    await mkdir(folder);
    await writeFile(join(base, 'starts'), '');
    return new ScriptImages(folder, join(base, 'starts'));
  }

  /** A file that programs can wait for: it does not exist before `open`. */
  gate(name: string): { readonly path: string; readonly open: () => Promise<void> } {
    const path = join(this.folder, '..', `gate-${name}`);
    return { path, open: () => writeFile(path, '') };
  }

  /** Makes an image of a shell script. Each start is recorded first. */
  async add(name: string, script: string): Promise<void> {
    const folder = join(this.folder, name);
    await mkdir(folder);
    const program = join(folder, 'program');
    await writeFile(program, `#!/bin/sh\necho "${name} $$" >>'${this.record}'\n${script}\n`);
    await chmod(program, 0o755);
  }

  /** Process ids of every start of the image, oldest first. */
  async startsOf(name: string): Promise<number[]> {
    const lines = (await readFile(this.record, 'utf8')).split('\n').map((line) => line.split(' '));
    return lines.filter(([image]) => image === name).map(([, pid]) => Number(pid));
  }

  /** Starts the worker program with these images. */
  async startWorker(options: WorkerOptions): Promise<TestProcess> {
    const { url, key, id, env = {}, stdout, main = WORKER_MAIN } = options;
    const tmp = await makeDataDir();
    return launch(main, {
      ...(stdout === undefined ? {} : { stdout }),
      env: {
        SERVICE_URL: url,
        SERVICE_API_KEY: key,
        SERVICE_WORKER_ID: id,
        SERVICE_WORKER_STATE_DIR: tmp,
        SERVICE_WORKER_TICK: '0.2',
        SERVICE_WORKER_RUNTIME: 'process',
        SERVICE_WORKER_IMAGES_DIR: this.folder,
        TMPDIR: tmp,
        ...env,
      },
    });
  }
}

/** Script lines that wait for a file. */
export function untilFile(path: string): string {
  return `while [ ! -e '${path}' ]; do sleep 0.05; done`;
}

/** SIGTERM, and the end in order. */
export async function endWorker(worker: TestProcess): Promise<void> {
  worker.signal('SIGTERM');
  assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.output);
}

/** Whether a process is there, dead ones that nobody has taken notice of left out. */
export async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat !== '' && stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
}
