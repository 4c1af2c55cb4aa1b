import { setTimeout as sleep } from 'node:timers/promises';
import { hasEnvironment, processTrees, signal, signalGroup, type ListedProcess } from './process-table.js';

/** How long killed processes may take to end, in milliseconds. */
const KILL_MS = 5_000;

/** Pauses between two looks at killed processes, in milliseconds. */
const PAUSE = { firstMs: 5, maxMs: 500 };

/**
 * The processes of a run: those of its group, those with its mark in their environment, and what these have started. A process without
 * mark is found while its parents live, and known from then on. Linux only; elsewhere only the group is known.
 */
export class RunProcesses {
  /** Start times by pid. */
  private readonly known = new Map<number, string>();

  /**
   * @param mark environment entry (`NAME=value`)
   * @param group null: its pid may be that of other processes by now
   */
  constructor(
    private readonly mark: string,
    private readonly group: number | null,
  ) {}

  /** Whether one of them lives that does not need its group to tell. @throws Error when the processes cannot be read */
  get isAlive(): boolean {
    return this.look(() => false).length > 0;
  }

  /** Signals the group. Call it while the group is the run's: its leader lives, or has just ended. */
  signal(name: NodeJS.Signals): void {
    if (this.group === null) return;
    try {
      // After the signal, nothing may tell whose children the members had.
      this.look((one) => one.group === this.group);
    } catch {
      // `kill` looks again.
    }
    signalGroup(this.group, name);
  }

  /**
   * Kills them all, also those that they start meanwhile. Resolves when they have ended.
   * @throws Error that says which live on: after {@link KILL_MS}, or at once if all others have ended and these belong to another user
   */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    const deadline = performance.now() + KILL_MS;
    const denied = new Set<number>();
    for (let pauseMs = PAUSE.firstMs; ; pauseMs = Math.min(2 * pauseMs, PAUSE.maxMs)) {
      const isLate = performance.now() > deadline;
      let left: number[] | null = null;
      try {
        left = this.look(() => false).map(({ pid }) => pid);
      } catch (error) {
        if (isLate) throw error;
      }
      if (left?.length === 0) return;
      for (const pid of left ?? []) if (!denied.has(pid) && !signal(pid, 'SIGKILL')) denied.add(pid);
      const isHopeless = left?.every((pid) => denied.has(pid)) ?? false;
      if (left !== null && (isLate || isHopeless)) throw new Error(`Processes live on: ${left.join(', ')}`);
      await sleep(pauseMs);
    }
  }

  /** All that live. @param isOurs whether a process is one of the run, in addition to those that tell by themselves */
  private look(isOurs: (one: ListedProcess) => boolean): ListedProcess[] {
    const found = processTrees(
      (one) =>
        this.known.get(one.pid) === one.startTicks || isOurs(one) || hasEnvironment(one.pid, this.mark),
    );
    for (const { pid, startTicks } of found) this.known.set(pid, startTicks);
    return found;
  }
}
