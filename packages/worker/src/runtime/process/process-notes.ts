import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

/** Notes about running child processes, one file for each, in a folder that only the worker's user may enter. */
export class ProcessNotes {
  constructor(private readonly folder: string) {}

  write(note: ProcessNote): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    writeFileSync(this.pathOf(note.pid), JSON.stringify(note), { mode: 0o600 });
  }

  remove(pid: number): void {
    rmSync(this.pathOf(pid), { force: true });
  }

  /** All notes; one that a crash left half-written is skipped and removed. */
  list(): ProcessNote[] {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    return readdirSync(this.folder).flatMap((name) => {
      const pid = Number.parseInt(name, 10);
      const note = parseNote(readFileSync(join(this.folder, name), 'utf8'));
      if (note?.pid === pid) return [note];
      rmSync(join(this.folder, name), { force: true });
      return [];
    });
  }

  private pathOf(pid: number): string {
    return join(this.folder, `${pid}.json`);
  }
}

function parseNote(text: string): ProcessNote | null {
  try {
    const { pid, stamp, mark } = Object(JSON.parse(text));
    // Groups 0 and 1 would be the worker itself and everybody.
    if (!Number.isInteger(pid) || pid <= 1 || typeof mark !== 'string') return null;
    return { pid, stamp: typeof stamp === 'string' ? stamp : null, mark };
  } catch {
    return null;
  }
}
