import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

const TAIL_CHARACTERS = 4000;

export interface WorkerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface WorkerPlan {
  /** A shell command for one program; the shell becomes that program. */
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
  /** Its output is appended to this file. */
  readonly logFile: string;
}

/** A worker as a process group of its own. */
export class WorkerUnderTest {
  /** Resolves when it has ended. */
  readonly exited: Promise<WorkerExit>;
  private readonly child: ChildProcess;
  private over = false;
  /** When it was signalled, on the clock of `Exchange.atMs`. */
  readonly signalsMs: number[] = [];

  constructor(private readonly plan: WorkerPlan) {
    const log = openSync(plan.logFile, 'a', 0o600);
    this.child = spawn('/bin/sh', ['-c', `exec ${plan.command}`], {
      env: plan.env,
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    this.exited = new Promise((resolve) => {
      const end = (exit: WorkerExit): void => {
        this.over = true;
        resolve(exit);
      };
      this.child.once('error', () => end({ code: 127, signal: null }));
      this.child.once('exit', (code, signal) => end({ code, signal }));
    });
  }

  get hasEnded(): boolean {
    return this.over;
  }

  /** SIGTERM to the program alone, as a supervisor sends it. */
  terminate(): void {
    if (this.over) return;
    this.signalsMs.push(performance.now());
    this.child.kill('SIGTERM');
  }

  /** The signals sent so far, with how long ago, as `2 x SIGTERM, 1.50 s and 1.50 s ago`. */
  signals(): string {
    const ages = this.signalsMs.map((atMs) => `${((performance.now() - atMs) / 1000).toFixed(2)} s`);
    return `${ages.length} x SIGTERM, ${ages.join(' and ')} ago`;
  }

  /** SIGKILL to the program and its group, and waits for the end. */
  async kill(): Promise<void> {
    const { pid } = this.child;
    this.signalsMs.push(performance.now());
    try {
      if (pid !== undefined) process.kill(-pid, 'SIGKILL');
    } catch {
      // All of them have ended.
    }
    await this.exited;
  }

  /** The end of its output. */
  async printed(): Promise<string> {
    return (await readFile(this.plan.logFile, 'utf8')).slice(-TAIL_CHARACTERS);
  }
}
