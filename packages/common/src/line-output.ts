import { constants, fstatSync, openSync, writeSync } from 'node:fs';

/** Bytes of waiting lines from which on further lines are dropped. */
const MAX_WAITING = 1024 * 1024;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 500;
/** Longest wait for a reader when the process ends, in milliseconds. */
const EXIT_WAIT_MS = 1_000;

/**
 * A log's way to a file descriptor. Writing never throws and does not wait for a reader: lines that cannot be written (reader
 * stopped or ended, disk full) wait up to a bound, further ones are dropped and counted until the waiting ones are written.
 * A line that is written at once is handed to the system before `write` returns, so a crash does not lose it. Lines that still
 * wait when the process ends are lost after a second.
 */
export class LineOutput {
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #dropped = 0;
  /** Lines dropped since the last line that waits. */
  #gap = 0;
  #report: (lines: number) => void = () => undefined;
  #descriptor: number | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #timer: NodeJS.Timeout | undefined;

  /** @param fd of a regular file, or one that the system can open without blocking; 1 and 2 become such a descriptor */
  constructor(
    private readonly fd: number,
    private readonly maxWaiting = MAX_WAITING,
  ) {}

  /** Lines dropped since the process started. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Bytes of lines that could not be written yet. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Sets what is called, at the place of the gap, with the number of dropped lines once lines can be written again. */
  reportGaps(report: (lines: number) => void): void {
    this.#report = report;
  }

  /** Writes a text that ends with a line feed; never throws. */
  write(text: string): void {
    const bytes = Buffer.from(text);
    const isFull = this.#waitingBytes > 0 && this.#waitingBytes + bytes.length > this.maxWaiting;
    if (isFull || this.#gap > 0) {
      this.#gap += 1;
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#timer === undefined) this.#writeOrWait();
  }

  #writeOrWait(): void {
    this.#timer = undefined;
    if (this.#writeWaiting() === undefined) return;
    this.#timer = setTimeout(() => this.#writeOrWait(), this.#pauseMs).unref();
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
  }

  /** @returns why lines still wait; undefined: none does */
  #writeWaiting(): unknown {
    try {
      this.#descriptor ??= this.#open();
      // Each line in a write of its own, which several processes with one pipe do not tear apart up to 4,096 bytes.
      for (let [line] = this.#waiting; line !== undefined; [line] = this.#waiting) {
        const written = writeSync(this.#descriptor, line);
        this.#waitingBytes -= written;
        this.#pauseMs = FIRST_PAUSE_MS;
        if (written < line.length) this.#waiting[0] = line.subarray(written);
        else this.#waiting.shift();
      }
    } catch (error) {
      return error;
    }
    const lines = this.#gap;
    this.#gap = 0;
    if (lines > 0) this.#report(lines);
    return undefined;
  }

  #open(): number {
    process.on('exit', () => this.#end());
    return this.fd === 1 || this.fd === 2 ? openStandard(this.fd) : this.fd;
  }

  #end(): void {
    const deadline = performance.now() + EXIT_WAIT_MS;
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (let why = this.#writeWaiting(); isBusy(why); why = this.#writeWaiting()) {
      if (performance.now() > deadline) return;
      Atomics.wait(pause, 0, 0, FIRST_PAUSE_MS);
    }
  }
}

/** Standard output and standard error of this process. */
export const standardOutput = new LineOutput(1);
export const standardError = new LineOutput(2);

/**
 * A descriptor that does not block. A pipe, device or terminal is opened again, because the flag O_NONBLOCK of an inherited
 * descriptor belongs to every process that shares it. Sockets cannot be opened again: Node itself has set the flag for its
 * stream. Regular files have no reader to wait for, and a second descriptor would write at a position of its own.
 */
function openStandard(fd: 1 | 2): number {
  // What libraries and extensions write to these streams must not end the process either.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  try {
    if (fstatSync(fd).isFile()) return fd;
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return fd;
  }
}

function isBusy(why: unknown): boolean {
  return why instanceof Error && 'code' in why && why.code === 'EAGAIN';
}
