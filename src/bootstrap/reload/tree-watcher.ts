import { watch, type FSWatcher } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** How often to look again at what cannot be watched, such as a folder that does not exist. */
const POLL_MS = 500;

interface WatchedFolder {
  readonly watcher: FSWatcher;
  readonly inode: number;
}

/**
 * Watches folders with all that lies in them, folders made later included, and reports once when files have changed
 * and then stayed the same for a moment. Hidden files and editors' backups do not count, nor does touching a file
 * without a new time or size. A watched folder may be absent and may be replaced as a whole.
 */
export class TreeWatcher {
  private readonly watchers = new Map<string, WatchedFolder>();
  private files = new Map<string, string>();
  private timer: NodeJS.Timeout | undefined;
  private poll: NodeJS.Timeout | undefined;
  private scanning = Promise.resolve();
  private closed = false;

  /**
   * @param roots folders to watch
   * @param onChange called with the path of one file that changed
   * @param debounceMs how long nothing must happen before a change is reported
   */
  constructor(
    private readonly roots: readonly string[],
    private readonly onChange: (path: string) => void,
    private readonly debounceMs = 200,
  ) {}

  /** Resolves when every later change will be seen. */
  async start(): Promise<void> {
    this.files = await this.scan();
  }

  /** Stops watching; nothing is reported afterwards. */
  async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.poll);
    await this.scanning;
    for (const folder of this.watchers.keys()) {
      this.unwatch(folder);
    }
  }

  private touch(): void {
    if (!this.closed) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.scanning = this.scanning.then(() => this.compare());
      }, this.debounceMs);
    }
  }

  private async compare(): Promise<void> {
    let files: Map<string, string>;
    try {
      files = await this.scan();
    } catch {
      // Unreadable right now, or no watchers left: what was known stays, and polling takes over.
      this.pollLater();
      return;
    }
    const changed =
      [...files].find(([path, mark]) => this.files.get(path) !== mark)?.[0] ??
      [...this.files.keys()].find((path) => !files.has(path));
    this.files = files;
    if (changed !== undefined && !this.closed) {
      this.onChange(changed);
    }
  }

  /** Marks of all files by path. Also watches the folders found, and forgets those that are gone. */
  private async scan(): Promise<Map<string, string>> {
    const files = new Map<string, string>();
    const folders = new Set<string>();
    for (const root of this.roots) {
      await this.scanFolder(root, files, folders);
    }
    for (const folder of this.watchers.keys()) {
      if (!folders.has(folder)) {
        this.unwatch(folder);
      }
    }
    if (this.roots.some((root) => !folders.has(root))) {
      this.pollLater();
    }
    return files;
  }

  private pollLater(): void {
    clearTimeout(this.poll);
    if (!this.closed) {
      this.poll = setTimeout(() => this.touch(), POLL_MS);
    }
  }

  private async scanFolder(folder: string, files: Map<string, string>, folders: Set<string>): Promise<void> {
    try {
      // Watched before it is read: what appears in between is then seen by one or the other.
      this.watch(folder, (await stat(folder)).ino);
      for (const entry of await readdir(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name);
        if (entry.name.startsWith('.') || entry.name.endsWith('~') || entry.name === 'node_modules') {
          continue;
        }
        if (entry.isDirectory()) {
          await this.scanFolder(path, files, folders);
        } else if (entry.isFile()) {
          const { mtimeMs, size, ino } = await stat(path);
          files.set(path, `${mtimeMs} ${size} ${ino}`);
        }
      }
      folders.add(folder);
    } catch (error) {
      // The folder, or a file in it, went away meanwhile: the next scan sees what is there instead.
      if (!isGone(error)) {
        throw error;
      }
      this.unwatch(folder);
      this.pollLater();
    }
  }

  private watch(folder: string, inode: number): void {
    if (this.watchers.get(folder)?.inode === inode || this.closed) {
      return;
    }
    this.unwatch(folder);
    const watcher = watch(folder, (event, name) => {
      // A folder that was removed or replaced reports itself: its watcher is then of no more use.
      if (event === 'rename' && name === basename(folder)) {
        this.unwatch(folder);
      }
      this.touch();
    });
    watcher.on('error', () => {
      this.unwatch(folder);
      this.touch();
    });
    this.watchers.set(folder, { watcher, inode });
  }

  private unwatch(folder: string): void {
    this.watchers.get(folder)?.watcher.close();
    this.watchers.delete(folder);
  }
}

function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}
