import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JsonObject } from '@longshore/common/json/json-value';
import { readOutputFile } from './output-file.js';

/** What a run's folder starts with. */
export interface FolderContent {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly inputs: JsonObject;
  /** Written to the output file beforehand unless it is empty. */
  readonly outputTemplate: JsonObject;
}

/** The folder of one attempt, which the container sees. */
export interface RunFolder {
  readonly path: string;
  /**
   * What the container left in the output file; undefined when it left nothing there. To be called after its end only.
   * @throws Error whose message is fit for a run's error_message
   */
  readOutputs(): Promise<JsonObject | undefined>;
  /** Deletes the folder and whatever the container put there. Harmless when it is gone. */
  remove(): Promise<void>;
}

/** What became of the folders of an earlier life. */
export interface Leftovers {
  /** How many are gone. */
  readonly removed: number;
  /** Paths of those that this user may not remove. */
  readonly kept: readonly string[];
}

/**
 * The folders of a worker's runs, below a folder of its own that no other user of the machine may enter. The folder of a
 * run is open to every user, because the container's user is whatever the image says.
 */
export class RunFolders {
  readonly root: string;

  /** @param base the folder for temporary files */
  constructor(workerId: string, base: string = tmpdir()) {
    const readable = workerId.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, 40);
    const distinct = createHash('sha256').update(workerId).digest('hex').slice(0, 12);
    const user = process.getuid?.() ?? 'user';
    this.root = join(base, `longshore-${user}-${readable}-${distinct}`);
  }

  /**
   * Makes the worker's folder and removes what an earlier life of the same worker id left there. What it may not remove
   * stays: a container's root can make folders that only root may empty.
   * @throws Error when the folder cannot be made, or belongs to somebody else
   */
  async prepare(): Promise<Leftovers> {
    await this.makeRoot();
    const kept: string[] = [];
    const found = await readdir(this.root);
    for (const name of found) {
      const path = join(this.root, name);
      try {
        await removeTree(path);
      } catch (error) {
        if (!isForbidden(error)) throw error;
        kept.push(path);
      }
    }
    return { removed: found.length - kept.length, kept };
  }

  /** Makes the folder of an attempt with its input and output file; its name is used for nothing else ever. */
  async create({ runId, attempt, inputs, outputTemplate }: FolderContent): Promise<RunFolder> {
    await this.makeRoot();
    const name = runId.replace(/[^A-Za-z0-9-]+/g, '-').slice(0, 64);
    const path = await mkdtemp(join(this.root, `${name}-${attempt}-`));
    const template = Object.keys(outputTemplate).length > 0 ? JSON.stringify(outputTemplate) : '';
    try {
      await writeWithMode(join(path, 'input.json'), JSON.stringify(inputs), 0o644);
      await writeWithMode(join(path, 'output.json'), template, 0o666);
      await chmod(path, 0o777);
    } catch (error) {
      await removeTree(path);
      throw error;
    }
    return {
      path,
      readOutputs: () => readOutputFile(join(path, 'output.json')),
      remove: () => removeTree(path),
    };
  }

  private async makeRoot(): Promise<void> {
    await mkdir(this.root, { mode: 0o700 }).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
    });
    // The folder for temporary files is open to all: somebody may have been there first.
    const found = await lstat(this.root);
    const own = process.getuid === undefined || found.uid === process.getuid();
    if (!found.isDirectory() || !own) {
      throw new Error(`${this.root} is not a folder of this user's; remove it or set TMPDIR`);
    }
    if ((found.mode & 0o777) !== 0o700) await chmod(this.root, 0o700);
  }
}

/** Whatever the umask says. */
async function writeWithMode(path: string, text: string, mode: number): Promise<void> {
  await writeFile(path, text, { flag: 'wx', mode });
  await chmod(path, mode);
}

async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch (error) {
    if (!isForbidden(error) && !hasCode(error, 'ENOTEMPTY')) throw error;
    await openUp(path);
    await rm(path, { recursive: true, force: true });
  }
}

/** Gives back the right to enter and change folders that the container had taken away. Follows no links. */
async function openUp(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await openUp(join(path, entry.name));
  }
}

function isForbidden(error: unknown): boolean {
  return hasCode(error, 'EACCES') || hasCode(error, 'EPERM');
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
