import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, mkdtempSync } from 'node:fs';
import { mkdir, readdir, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { jsonText } from '@longshore/common/json/json-text';
import { templateText, MAX_OUTPUT_BYTES, refusedOutputs } from '../outputs.js';
import type { ContainerSpec, EndedFiles } from '../runtime.js';
import { endedFiles, fillFilesRoot } from './attempt-files.js';
import { openFileBelow } from '../open-folder.js';
import { removeTree } from './remove-tree.js';
import { errorCode } from '@longshore/common/errors';

/** The folder of one attempt, in which its program runs. */
export interface RunFolder {
  readonly path: string;
  /** What stands before the paths of the run's files. */
  readonly filesRoot: string;
  /** Opens what the ended program has left below that. */
  readonly files: EndedFiles;
  /**
   * The output file of an ended program; null when there is none.
   * @throws Error fit for a run's error_message
   */
  readOutputs(): Promise<Buffer | null>;
  /** Deletes the folder. Idempotent. */
  remove(): Promise<void>;
}

/** What a folder is made for. */
export type FolderSpec = Pick<ContainerSpec, 'runId' | 'attempt' | 'inputs' | 'outputTemplate' | 'artifacts'>;

interface Leftovers {
  readonly removed: number;
  /** Paths that could not be removed. */
  readonly kept: readonly string[];
}

/** The folders of a worker's runs, below a root folder that only the worker's user may enter. */
export class RunFolders {
  readonly root: string;
  /** Folder for notes about the worker's processes. */
  readonly notes: string;
  /** Paths of the folders that this process uses. */
  private readonly current = new Set<string>();

  /** @param instance of the worker's identity: a worker with the same id and another lock has other folders */
  constructor(workerId: string, base: string = tmpdir(), instance: string = '') {
    const readable = workerId.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, 40);
    const distinct = createHash('sha256').update(`${instance} ${workerId}`).digest('hex').slice(0, 12);
    const user = process.getuid?.() ?? 'user';
    this.root = join(base, `longshore-${user}-${readable}-${distinct}`);
    this.notes = join(this.root, '.notes');
  }

  /**
   * Creates the root folder.
   * @throws Error when it cannot be created or belongs to another user
   */
  open(): void {
    mkdirSync(this.root, { recursive: true, mode: 0o700 });
    // Another user may have created it first: the temporary folder is open to all.
    const found = lstatSync(this.root);
    const own = process.getuid === undefined || found.uid === process.getuid();
    if (!found.isDirectory() || !own) {
      throw new Error(`${this.root} is not a folder of this user's; remove it or set TMPDIR`);
    }
    if ((found.mode & 0o777) !== 0o700) chmodSync(this.root, 0o700);
  }

  /** Removes what a previous process of this worker id left, or what this one could not remove, as far as this user may. */
  async removeLeftovers(): Promise<Leftovers> {
    this.open();
    const kept: string[] = [];
    const found = (await readdir(this.root)).map((name) => join(this.root, name));
    const left = found.filter((path) => path !== this.notes && !this.current.has(path));
    for (const path of left) {
      await removeTree(path).catch(() => kept.push(path));
    }
    return { removed: left.length - kept.length, kept };
  }

  /** Creates the folder of an attempt, under a unique name, with its input and output file. */
  async create({ runId, attempt, inputs, outputTemplate, artifacts }: FolderSpec): Promise<RunFolder> {
    this.open();
    const name = runId.replace(/[^A-Za-z0-9-]+/g, '-').slice(0, 64);
    // At once, or a search for leftovers could find it before it is known.
    const path = mkdtempSync(join(this.root, `${name}-${attempt}-`));
    this.current.add(path);
    const filesRoot = join(path, 'files');
    const remove = (): Promise<void> => {
      this.current.delete(path);
      return removeTree(path);
    };
    try {
      await writeFile(join(path, 'input.json'), jsonText(inputs));
      await writeFile(join(path, 'output.json'), templateText(outputTemplate));
      if (artifacts !== null) {
        await mkdir(filesRoot);
        await fillFilesRoot(filesRoot, artifacts);
      }
    } catch (error) {
      await remove();
      throw error;
    }
    return {
      path,
      filesRoot,
      files: endedFiles(this.root, [basename(path), basename(filesRoot)]),
      readOutputs: () => readOutputFile(this.root, [basename(path)]),
      remove,
    };
  }
}

/**
 * Reads the file `output.json` of an untrusted program: follows no link, does not block on pipes or devices, and reads at most
 * the limit.
 * @param root folder of the operator
 * @param folders the way from there to the folder of the file
 * @returns null when the file is missing
 * @throws RunFault when it is no regular file or too large
 * @throws Error fit for a run's error_message when this machine cannot read it
 */
export async function readOutputFile(
  root: string,
  folders: readonly string[],
  maxBytes = MAX_OUTPUT_BYTES,
): Promise<Buffer | null> {
  let file: FileHandle;
  try {
    file = await openFileBelow(root, folders, 'output.json');
  } catch (error) {
    const code = errorCode(error) || 'unknown error';
    if (code === 'ENOENT') return null;
    if (code === 'ELOOP' || code === 'ENXIO') throw refusedOutputs('it is no regular file');
    if (code === 'EACCES' || code === 'EPERM') throw refusedOutputs(`it cannot be opened (${code})`);
    throw new Error(`The run's output file cannot be opened (${code})`, { cause: error });
  }
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw refusedOutputs('it is no regular file');
    if (stat.nlink > 1) throw refusedOutputs('it has a second name (a hard link)');
    return await readCapped(file, maxBytes);
  } finally {
    await file.close();
  }
}

async function readCapped(file: FileHandle, maxBytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let length = 0; ;) {
    const part = Buffer.allocUnsafe(64 * 1024);
    const { bytesRead } = await file.read(part, 0, part.length, null);
    if (bytesRead === 0) return Buffer.concat(parts, length);
    length += bytesRead;
    if (length > maxBytes) throw refusedOutputs(`it is larger than ${maxBytes} bytes`);
    parts.push(part.subarray(0, bytesRead));
  }
}
