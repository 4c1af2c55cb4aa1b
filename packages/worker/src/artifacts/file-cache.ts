import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  chmod,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  stat,
  statfs,
  utimes,
  type FileHandle,
} from 'node:fs/promises';
import { join } from 'node:path';
import { Semaphore } from '@longshore/common/semaphore';

/** A file on the disk of the worker, for the time of a run's start. */
export interface StagedFile {
  readonly path: string;
  readonly bytes: number;
  /** Gives it up. Idempotent. */
  release(): Promise<void>;
}

/** A file that is being fetched. */
export interface IncomingFile {
  readonly path: string;
  readonly handle: FileHandle;
}

interface CachedFile {
  readonly bytes: number;
  /** Runs that use it now. */
  users: number;
}

/** What stays free on the disk of the worker, in bytes. */
const RESERVE = 512 * 2 ** 20;

const CHECKSUM = /^[0-9a-f]{64}$/;

/** The worker's disk has no space for a file. */
export class DiskFull extends Error {}

/**
 * The files of runs on the disk of this worker, in a folder that its user alone may enter and of which runs get copies. Those whose
 * checksum is known are kept for later runs, within a budget; the least recently used go first.
 */
export class FileCache {
  private readonly incoming: string;
  private readonly kept: string;
  /** By checksum; the least recently used first. */
  private readonly files = new Map<string, CachedFile>();
  private readonly turns = new Map<string, { readonly semaphore: Semaphore; count: number }>();
  private opened: Promise<void> | null = null;

  /** @param folder of this worker alone. @param maxBytes 0: none is kept */
  constructor(
    folder: string,
    private readonly maxBytes: number,
  ) {
    this.incoming = join(folder, 'incoming');
    this.kept = join(folder, 'by-sha256');
  }

  /** Takes over what earlier processes of the worker have kept, and removes what they left half done. Idempotent. */
  open(): Promise<void> {
    this.opened ??= this.read();
    return this.opened;
  }

  /** Runs work about one checksum alone, so that a file which several runs want is fetched once. */
  async alone<T>(sha256: string | null, work: () => Promise<T>): Promise<T> {
    if (sha256 === null) return work();
    const turn = this.turns.get(sha256) ?? { semaphore: new Semaphore(1), count: 0 };
    this.turns.set(sha256, turn);
    turn.count += 1;
    try {
      return await turn.semaphore.run(work);
    } finally {
      turn.count -= 1;
      if (turn.count === 0) this.turns.delete(sha256);
    }
  }

  /** A kept file, which is read to see that it is what it was; null: there is none. */
  async find(sha256: string, signal: AbortSignal): Promise<StagedFile | null> {
    const file = this.files.get(sha256);
    if (file === undefined) return null;
    file.users += 1;
    const path = this.pathOf(sha256);
    try {
      if ((await checksumOf(path, signal)) === sha256) {
        this.files.delete(sha256);
        this.files.set(sha256, file);
        const now = new Date();
        await utimes(path, now, now);
        return this.staged(sha256, file);
      }
    } catch {
      signal.throwIfAborted();
    }
    file.users -= 1;
    this.files.delete(sha256);
    await rm(path, { force: true });
    return null;
  }

  /** Begins a file. @throws DiskFull when there is no space for so many bytes */
  async begin(bytes: number): Promise<IncomingFile> {
    await this.makeRoom(bytes);
    const path = join(this.incoming, randomUUID());
    return { path, handle: await open(path, 'wx', 0o600) };
  }

  /** Frees space on the disk, if necessary by removing kept files. @throws DiskFull when there is none for so many bytes */
  async makeRoom(bytes: number): Promise<void> {
    for (;;) {
      const { bavail, bsize } = await statfs(this.incoming);
      if (bavail * bsize - bytes >= RESERVE) return;
      if (!(await this.removeOldest())) throw new DiskFull('the disk of the worker has no space for it');
    }
  }

  /** Keeps a file that is complete, if it may. @param sha256 null: not known before it was fetched */
  async finish({ path }: IncomingFile, bytes: number, sha256: string | null): Promise<StagedFile> {
    if (sha256 === null || bytes > this.maxBytes) return this.temporary(path, bytes);
    const known = this.files.get(sha256);
    const file = known ?? { bytes, users: 0 };
    file.users += 1;
    await chmod(path, 0o400);
    await rename(path, this.pathOf(sha256));
    this.files.delete(sha256);
    this.files.set(sha256, file);
    await this.shrink();
    return this.staged(sha256, file);
  }

  /** Gives up a file that is not complete. */
  async discard({ path, handle }: IncomingFile): Promise<void> {
    await handle.close().catch(() => undefined);
    await rm(path, { force: true });
  }

  private async read(): Promise<void> {
    await rm(this.incoming, { recursive: true, force: true });
    await mkdir(this.incoming, { recursive: true, mode: 0o700 });
    await mkdir(this.kept, { recursive: true, mode: 0o700 });
    const found: { name: string; bytes: number; usedMs: number }[] = [];
    for (const name of await readdir(this.kept)) {
      const { size: bytes, mtimeMs: usedMs } = await stat(join(this.kept, name));
      if (CHECKSUM.test(name)) found.push({ name, bytes, usedMs });
    }
    for (const { name, bytes } of found.toSorted((a, b) => a.usedMs - b.usedMs))
      this.files.set(name, { bytes, users: 0 });
    await this.shrink();
  }

  private staged(sha256: string, file: CachedFile): StagedFile {
    let isReleased = false;
    const release = async (): Promise<void> => {
      if (isReleased) return;
      isReleased = true;
      file.users -= 1;
      await this.shrink();
    };
    return { path: this.pathOf(sha256), bytes: file.bytes, release };
  }

  private temporary(path: string, bytes: number): StagedFile {
    return { path, bytes, release: () => rm(path, { force: true }) };
  }

  /** Keeps the budget. What runs use now stays, and goes later. */
  private async shrink(): Promise<void> {
    const total = (): number => [...this.files.values()].reduce((sum, { bytes }) => sum + bytes, 0);
    while (total() > this.maxBytes) if (!(await this.removeOldest())) return;
  }

  /** @returns whether there was one that no run uses */
  private async removeOldest(): Promise<boolean> {
    for (const [sha256, { users }] of this.files) {
      if (users > 0) continue;
      this.files.delete(sha256);
      await rm(this.pathOf(sha256), { force: true });
      return true;
    }
    return false;
  }

  private pathOf(sha256: string): string {
    return join(this.kept, sha256);
  }
}

async function checksumOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const bytes of createReadStream(path, { signal, highWaterMark: 2 ** 20 })) hash.update(bytes);
  return hash.digest('hex');
}
