import { randomUUID } from 'node:crypto';
import {
  lstat,
  mkdir,
  readdir,
  readlink,
  rename,
  rm,
  utimes,
  writeFile,
  type FileHandle,
} from 'node:fs/promises';
import { join } from 'node:path';
import { textOrBytes } from '@longshore/common/binary';
import { isJsonObject } from '@longshore/common/json/json-value';
import { SettingsError } from '@longshore/common/settings/setting';
import { DiskFull } from '@longshore/worker/artifacts/file-cache';
import type { JobKey, JobMemo } from '../launcher/engine.js';
import { errorCode, errorText } from '@longshore/common/errors';
import { oneLine } from '@longshore/common/shown-text';
import { openFolderBelow, pathOf, readTextIn } from '@longshore/worker/runtime/open-folder';
import { removeTree } from '@longshore/worker/runtime/process/remove-tree';
import { EngineFault, RunFault } from '@longshore/worker/runtime/runtime';
import { MEMO, SECRETS, SUBMISSION, writeAttempt, type AttemptFiles } from './attempt-files.js';
import { attemptName, parseAttemptName } from './slurm-lines.js';

/** What the job script has written at the end of an attempt. */
export interface ExitRecord {
  /** `exited`: the container has ended. Others: why there was none, `error` and `infrastructure` because of its mounts and files. */
  readonly kind: 'exited' | 'image' | 'error' | 'infrastructure';
  readonly exitCode: number;
  /** Whether the job script got a signal before: a user or Slurm ended the job. */
  readonly wasSignalled: boolean;
  /** When the container ended, in milliseconds since 1970. */
  readonly endedAtMs: number;
  /** Size of the log, in bytes. */
  readonly logBytes: number;
  /** Why there was no container. */
  readonly message: string;
}

/** The files of an attempt, which outlive the controller's memory of its job. */
export interface FolderState {
  /** The launcher that made the folder. */
  readonly workerId: string;
  readonly createdAtMs: number;
  /** Jobs that Slurm accepted. */
  readonly jobIds: readonly string[];
  /** The job that executes the attempt; null: none yet. */
  readonly takenBy: string | null;
  readonly hasStarted: boolean;
  /** When the container started, in milliseconds since 1970; null: not, or not visible yet. */
  readonly startedAtMs: number | null;
  /** Null: not ended, or without a record. */
  readonly exit: ExitRecord | null;
}

const JOB_PREFIX = 'job-';
const MAX_MESSAGE_LENGTH = 500;
/** Of a file that a job writes, in bytes. */
const MAX_RECORD_BYTES = 64 * 1024;
/** Of the values of secrets, in bytes: what a run may have. */
const MAX_SECRETS_BYTES = 64 * 2 ** 20;

const EXIT = /^([a-z]+) (\d+) ([01]) (\d+) (\d{13})\s*$/;
const EXIT_KINDS: readonly ExitRecord['kind'][] = ['exited', 'image', 'error', 'infrastructure'];

const DRAFT = /^\.(?:new|old|probe)-/;

/** Age of a draft whose process does not go on, in milliseconds. */
export const DRAFT_MS = 10 * 60_000;

/** The folders of a deployment's attempts below SERVICE_WORKER_SLURM_DIR. */
export class JobFolders {
  readonly root: string;
  /** Times of starts, which never change. */
  private readonly starts = new Map<string, number>();
  /** Submissions never change. */
  private readonly submissions = new Map<string, Pick<FolderState, 'workerId' | 'createdAtMs'>>();

  constructor(base: string, deployment: string) {
    this.root = join(base, deployment);
  }

  /** @throws SettingsError when the folder cannot be written */
  async open(): Promise<void> {
    try {
      await mkdir(this.root, { recursive: true, mode: 0o700 });
      await this.removeDrafts();
    } catch (error) {
      throw new SettingsError([
        `SERVICE_WORKER_SLURM_DIR must be a folder that can be written: ${errorText(error)}`,
      ]);
    }
  }

  pathOf(key: JobKey): string {
    return join(this.root, attemptName(key));
  }

  /**
   * Makes the folder of an attempt at once, whole or not at all.
   * @returns false when there is one already
   */
  async create(key: JobKey, files: AttemptFiles): Promise<boolean> {
    // Its files may be large.
    if (await isThere(join(this.pathOf(key), SUBMISSION))) return false;
    const draft = join(this.root, `.new-${randomUUID()}`);
    const alive = setInterval(() => {
      const now = new Date();
      void utimes(draft, now, now).catch(() => undefined);
    }, DRAFT_MS / 10);
    try {
      await writeAttempt(draft, files);
      // Renaming onto a folder that is not empty fails, so one of two launchers makes the folder.
      await rename(draft, this.pathOf(key));
      this.submissions.delete(this.pathOf(key));
      return true;
    } catch (error) {
      await removeTree(draft);
      if (errorCode(error) === 'ENOTEMPTY' || errorCode(error) === 'EEXIST') return false;
      throw error;
    } finally {
      clearInterval(alive);
    }
  }

  /** Records that Slurm has accepted a job. */
  async noteJob(key: JobKey, jobId: string): Promise<void> {
    await writeFile(join(this.pathOf(key), `${JOB_PREFIX}${jobId}`), '', { mode: 0o600 });
  }

  /** The attempts that have a folder. */
  async list(): Promise<JobKey[]> {
    const names = await readdir(this.root);
    const paths = new Set(names.map((name) => join(this.root, name)));
    // Other launchers remove folders, too.
    for (const known of [this.submissions, this.starts])
      for (const path of known.keys()) if (!paths.has(path)) known.delete(path);
    return names.flatMap((name) => parseAttemptName(name) ?? []);
  }

  /** @returns null when there is no folder of that name */
  read(key: JobKey): Promise<FolderState | null> {
    const path = this.pathOf(key);
    return this.within(key, async (folder) => {
      // Opening and listing a folder makes a network file system ask its server, unlike looking for one file.
      const names = await readdir(pathOf(folder));
      const jobIds = names
        .filter((name) => name.startsWith(JOB_PREFIX))
        .map((name) => name.slice(JOB_PREFIX.length));
      const taken = names.includes('taken') ? await readlink(`${pathOf(folder)}/taken`) : null;
      return {
        ...(await this.readSubmission(path, folder)),
        jobIds,
        takenBy: taken === null ? null : (taken.split('.')[0] ?? null),
        hasStarted: names.includes('started'),
        startedAtMs: names.includes('started') ? await this.readStart(path, folder) : null,
        exit: names.includes('exit') ? await readExit(folder) : null,
      };
    });
  }

  /** The values of secrets of an attempt by variable; null when there is no folder, or the file is damaged. */
  readSecrets(key: JobKey): Promise<Readonly<Record<string, string | Buffer>> | null> {
    return this.within(key, async (folder) => {
      const value = parseJson(await readTextIn(folder, SECRETS, MAX_SECRETS_BYTES));
      if (!isJsonObject(value)) return null;
      return Object.fromEntries(
        Object.entries(value).flatMap(([name, base64]) =>
          typeof base64 === 'string' ? [[name, textOrBytes(Buffer.from(base64, 'base64'))]] : [],
        ),
      );
    });
  }

  /** What the attempt was submitted with; null when there is no folder, or the file is damaged. */
  readMemo(key: JobKey): Promise<JobMemo | null> {
    return this.within(key, async (folder) => {
      const value = parseJson(await readTextIn(folder, MEMO, MAX_SECRETS_BYTES));
      if (!isJsonObject(value)) return null;
      return { signedQueries: textsOf(value['signedQueries']), notes: textsOf(value['notes']) };
    });
  }

  /** Reads from the open folder of an attempt. @returns null when there is no folder, or a file of it is missing */
  private async within<T>(key: JobKey, task: (folder: FileHandle) => Promise<T>): Promise<T | null> {
    let folder: FileHandle | null = null;
    try {
      folder = await openFolderBelow(this.root, [attemptName(key)]);
      return await task(folder);
    } catch (error) {
      if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))) return null;
      throw error;
    } finally {
      await folder?.close();
    }
  }

  /** Deletes the folder. Idempotent. */
  async remove(key: JobKey): Promise<void> {
    const path = this.pathOf(key);
    const removed = join(this.root, `.old-${randomUUID()}`);
    this.submissions.delete(path);
    this.starts.delete(path);
    try {
      // A job that starts now finds no folder, or the whole one.
      await rename(path, removed);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return;
      throw error;
    }
    await removeTree(removed);
  }

  /** Removes what processes that were killed have left of folders that they made or removed. */
  async removeDrafts(): Promise<void> {
    const probe = join(this.root, `.probe-${randomUUID()}`);
    await writeFile(probe, '', { mode: 0o600 });
    // By the clock of the file system.
    const { ctimeMs: now } = await lstat(probe);
    await rm(probe);
    for (const name of await readdir(this.root)) {
      if (!DRAFT.test(name)) continue;
      const path = join(this.root, name);
      const { ctimeMs } = await lstat(path).catch(() => ({ ctimeMs: now }));
      if (now - ctimeMs > DRAFT_MS) await removeTree(path).catch(() => undefined);
    }
  }

  /** @returns null when the time is not visible yet */
  private async readStart(path: string, folder: FileHandle): Promise<number | null> {
    const known = this.starts.get(path);
    if (known !== undefined) return known;
    const text = await readTextIn(folder, 'started', MAX_RECORD_BYTES).catch(() => '');
    const [time] = /^\d{13}(?=\n)/.exec(text) ?? [];
    if (time === undefined) return null;
    this.starts.set(path, Number(time));
    return Number(time);
  }

  private async readSubmission(
    path: string,
    folder: FileHandle,
  ): Promise<Pick<FolderState, 'workerId' | 'createdAtMs'>> {
    const known = this.submissions.get(path);
    if (known !== undefined) return known;
    const value = parseJson(await readTextIn(folder, SUBMISSION, MAX_RECORD_BYTES));
    const { worker_id: workerId, created_at: createdAt } = isJsonObject(value) ? value : {};
    const submission = {
      workerId: typeof workerId === 'string' ? workerId : '',
      createdAtMs: typeof createdAt === 'number' ? createdAt : 0,
    };
    this.submissions.set(path, submission);
    return submission;
  }
}

/** What fails in the shared folder is no fault of a run. @throws EngineFault then */
export async function inFolder<T>(task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    if ([RunFault, EngineFault, SettingsError, DiskFull].some((kind) => error instanceof kind)) throw error;
    throw new EngineFault(`The shared folder of Slurm's jobs cannot be used: ${errorText(error)}`, {
      cause: error,
    });
  }
}

function isExitKind(kind: string | undefined): kind is ExitRecord['kind'] {
  return EXIT_KINDS.some((known) => known === kind);
}

async function readExit(folder: FileHandle): Promise<ExitRecord | null> {
  const [, kind, code, signalled, bytes, endedAt] =
    EXIT.exec(await readTextIn(folder, 'exit', MAX_RECORD_BYTES)) ?? [];
  if (!isExitKind(kind)) return null;
  const file = kind === 'exited' ? null : kind === 'image' ? 'image-error' : 'mount-error';
  const written = file === null ? '' : await readTextIn(folder, file, MAX_RECORD_BYTES).catch(() => '');
  // The file about mounts begins with the cause.
  const message = file === 'mount-error' ? written.replace(/^\S+ /, '') : written;
  return {
    kind,
    exitCode: Number(code),
    wasSignalled: signalled === '1',
    endedAtMs: Number(endedAt),
    logBytes: Number(bytes),
    message: oneLine(message).slice(0, MAX_MESSAGE_LENGTH),
  };
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

async function isThere(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null)) !== null;
}

/** @returns undefined for a damaged file: one attempt must not hold up the others */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
