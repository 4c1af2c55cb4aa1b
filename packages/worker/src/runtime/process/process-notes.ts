import { lstatSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Identifies a child process, so that the worker's next process can kill it. */
export interface ProcessNote {
  /** The child, leader of its own process group. */
  readonly pid: number;
  /** Its `processStamp`; null: it had ended already. */
  readonly stamp: string | null;
  /** Environment entry that is unique to the processes of this run. */
  readonly mark: string;
}

const NOTE_NAME = /^([0-9]+)\.json$/;

/**
 * Notes about running child processes: one file per process in a folder that only the worker's user may touch. The
 * folder is there only as long as it holds notes.
 */
export class ProcessNotes {
  /** @throws Error when the folder cannot be created or other users may write to it */
  constructor(private readonly folder: string) {
    this.open();
    this.tidy();
  }

  write(note: ProcessNote): void {
    this.open();
    writeFileSync(this.pathOf(note.pid), JSON.stringify(note), { mode: 0o600 });
  }

  remove(pid: number): void {
    rmSync(this.pathOf(pid), { force: true });
    this.tidy();
  }

  /** All notes; one that a crash left half-written is skipped and removed. */
  list(): ProcessNote[] {
    this.open();
    const notes: ProcessNote[] = [];
    for (const name of readdirSync(this.folder)) {
      const pid = Number(NOTE_NAME.exec(name)?.[1] ?? Number.NaN);
      if (Number.isNaN(pid)) continue;
      const note = parseNote(readFileSync(join(this.folder, name), 'utf8'));
      if (note?.pid === pid) notes.push(note);
      else rmSync(this.pathOf(pid), { force: true });
    }
    this.tidy();
    return notes;
  }

  private open(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    const { uid, mode } = lstatSync(this.folder);
    const isOurs = process.getuid === undefined || (uid === process.getuid() && (mode & 0o077) === 0);
    if (!isOurs)
      throw new Error(`'${this.folder}' must belong to the worker's user and be closed to others (mode 700)`);
  }

  private tidy(): void {
    try {
      rmdirSync(this.folder);
    } catch {
      // It holds notes.
    }
  }

  private pathOf(pid: number): string {
    return join(this.folder, `${pid}.json`);
  }
}

function parseNote(text: string): ProcessNote | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null || !('pid' in value) || !('mark' in value)) return null;
  const { pid, mark } = value;
  const stamp = 'stamp' in value && typeof value.stamp === 'string' ? value.stamp : null;
  // Groups 0 and 1 would be the worker itself and everybody.
  if (typeof pid !== 'number' || !Number.isInteger(pid) || pid <= 1 || typeof mark !== 'string') return null;
  return { pid, stamp, mark };
}
