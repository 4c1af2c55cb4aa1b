import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JsonObject } from '@longshore/common/json/json-value';
import { readOutputFile } from './output-file.js';

export interface FolderContent {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly inputs: JsonObject;
  /** Initial content of the output file unless empty. */
  readonly outputTemplate: JsonObject;
}

/** The folder of one attempt, mounted in its container. */
export interface RunFolder {
  readonly path: string;
  /**
   * The outputs of an ended container; undefined when there are none.
   * @throws Error fit for a run's error_message
   */
  readOutputs(): Promise<JsonObject | undefined>;
  /** Deletes the folder. Idempotent. */
  remove(): Promise<void>;
}

export interface Leftovers {
  readonly removed: number;
  /** Paths that this user may not remove. */
  readonly kept: readonly string[];
}

/**
 * The folders of a worker's runs, below a root folder that only the worker's user may enter. The folder of a run is open to
 * every user, because the image decides which user the container runs as.
 */
export class RunFolders {
  readonly root: string;

  constructor(workerId: string, base: string = tmpdir()) {
    const readable = workerId.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, 40);
    const distinct = createHash('sha256').update(workerId).digest('hex').slice(0, 12);
    const user = process.getuid?.() ?? 'user';
    this.root = join(base, `longshore-${user}-${readable}-${distinct}`);
  }

  /**
   * Creates the root folder and removes what a previous process of this worker id left there. Keeps folders that only
   * root may empty.
   * @throws Error when the root folder cannot be created or belongs to another user
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

  /** Creates the folder of an attempt, under a unique name, with its input and output file. */
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
    // Another user may have created it first: the temporary folder is open to all.
    const found = await lstat(this.root);
    const own = process.getuid === undefined || found.uid === process.getuid();
    if (!found.isDirectory() || !own) {
      throw new Error(`${this.root} is not a folder of this user's; remove it or set TMPDIR`);
    }
    if ((found.mode & 0o777) !== 0o700) await chmod(this.root, 0o700);
  }
}

/** Sets the mode independent of the umask. */
async function writeWithMode(path: string, text: string, mode: number): Promise<void> {
  await writeFile(path, text, { flag: 'wx', mode });
  await chmod(path, mode);
}

async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch (error) {
    if (!isForbidden(error) && !hasCode(error, 'ENOTEMPTY')) throw error;
    await restoreAccess(path);
    await rm(path, { recursive: true, force: true });
  }
}

/** Restores access to folders that the container closed. Follows no links. */
async function restoreAccess(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await restoreAccess(join(path, entry.name));
  }
}

function isForbidden(error: unknown): boolean {
  return hasCode(error, 'EACCES') || hasCode(error, 'EPERM');
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
