import { spawn, type ChildProcess } from 'node:child_process';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** How long after the end of a program the same signal may take to end the sentinel, in milliseconds. */
const SAME_SIGNAL_MS = 50;

/**
 * A process that does nothing beside the programs of a worker. A signal that ends it was sent to all that the worker started:
 * systemd and other supervisors do so when they stop a service. The exit code of a program does not tell that.
 */
export class Sentinel {
  private child: ChildProcess | null = null;

  /** Starts it unless it runs. It ends with the worker. */
  start(): void {
    if (this.child !== null && this.child.exitCode === null && this.child.signalCode === null) return;
    const child = spawn('cat', { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    // Without it, ends of programs count as their own.
    child.on('error', () => undefined);
    child.unref();
    if (child.stdin instanceof Socket) child.stdin.unref();
    this.child = child;
  }

  /** @throws Error fit for a run's error_message when a signal ended it */
  async check(): Promise<void> {
    const { child } = this;
    if (child === null) return;
    await sleep(SAME_SIGNAL_MS);
    if (child.signalCode !== null)
      throw new Error(`The program ended when all processes of the worker were sent ${child.signalCode}`);
  }
}
