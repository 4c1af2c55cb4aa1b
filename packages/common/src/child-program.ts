import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream, type WriteStream } from 'node:fs';
import { createInterface } from 'node:readline';

const TAIL_LINES = 25;

export interface ChildPlan {
  /** For messages. */
  readonly name: string;
  /** Script that is run by this Node. */
  readonly script: string;
  readonly env: NodeJS.ProcessEnv;
  /** File for its output; truncated at the start. */
  readonly logFile: string;
}

/** A child program ended without being stopped. */
export class ChildEnded extends Error {
  constructor(
    readonly child: string,
    /** `exit code 1`, `SIGKILL` ... */
    readonly how: string,
    /** The last lines that it printed. */
    readonly tail: readonly string[],
  ) {
    super(`the ${child} ended unexpectedly (${how})`);
    this.name = 'ChildEnded';
  }
}

/** A child process in its own session: Ctrl-C reaches only this process, which stops its children in the right order. */
export class ChildProgram {
  /** Rejects with {@link ChildEnded} when the program ends before `stop`; never resolves. */
  readonly lost: Promise<never>;
  private readonly child: ChildProcess;
  private readonly log: WriteStream;
  private readonly tail: string[] = [];
  private readonly listeners = new Set<(line: string) => void>();
  private readonly ended: Promise<string>;
  private stopping = false;
  private lostAlready = false;

  constructor(private readonly plan: ChildPlan) {
    this.log = createWriteStream(plan.logFile, { mode: 0o600 });
    // A full disk must not end the demo.
    this.log.on('error', () => undefined);
    this.child = spawn(process.execPath, [plan.script], {
      env: plan.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', (line) => this.take(line));
    }
    this.ended = new Promise((resolve) => {
      this.child.once('error', (error) => resolve(error.message));
      this.child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    this.lost = this.waitForLoss();
    // It may have no listener.
    this.lost.catch(() => undefined);
  }

  /** Waits for a line that matches. @throws ChildEnded when the program ends first */
  async untilLine(pattern: RegExp): Promise<RegExpExecArray> {
    let listener: ((line: string) => void) | undefined;
    const found = new Promise<RegExpExecArray>((resolve) => {
      listener = (line) => {
        const match = pattern.exec(line);
        if (match !== null) resolve(match);
      };
      this.listeners.add(listener);
    });
    try {
      return await Promise.race([found, this.lost]);
    } finally {
      if (listener !== undefined) this.listeners.delete(listener);
    }
  }

  /** Whether it ended before `stop`. */
  get isLost(): boolean {
    return this.lostAlready;
  }

  /**
   * Stops the program; harmless when it has ended.
   * @param graceMs time between SIGTERM and SIGKILL
   * @returns how it ended, unless as expected
   */
  async stop(graceMs: number): Promise<string | null> {
    this.stopping = true;
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), graceMs);
    const how = await this.ended;
    clearTimeout(timer);
    await new Promise((resolve) => {
      this.log.end(() => resolve(undefined));
      this.log.once('error', resolve);
    });
    // SIGTERM: a program without signal handlers has not started anything yet.
    return how === 'exit code 0' || how === 'SIGTERM' ? null : how;
  }

  private take(line: string): void {
    this.tail.push(line);
    if (this.tail.length > TAIL_LINES) this.tail.shift();
    this.log.write(`${line}\n`);
    for (const listener of this.listeners) listener(line);
  }

  private async waitForLoss(): Promise<never> {
    const how = await this.ended;
    if (this.stopping) return new Promise<never>(() => undefined);
    this.lostAlready = true;
    throw new ChildEnded(this.plan.name, how, this.tail);
  }
}
