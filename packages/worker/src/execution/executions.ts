import type { ClaimedRun, EndingRun, HeldRun, LostRun } from '../service-api/service-api.js';
import type { WorkerEvents } from '../worker-context.js';
import type { RunExecution } from './run-execution.js';
import type { StopReason } from './stop-signal.js';

/** The executions of a worker, each until the end of its run is reported. */
export class Executions {
  /** Runs that go on without this process. */
  readonly left: ClaimedRun[] = [];
  /** Runs whose end could not be reported. */
  unreported = 0;
  private readonly ends = new Map<RunExecution, Promise<void>>();
  /** Set when all executions are stopped. */
  private stopReason: StopReason | null = null;

  /** @param draining aborted when the worker shuts down */
  constructor(
    private readonly events: WorkerEvents,
    private readonly draining: AbortSignal,
  ) {}

  get size(): number {
    return this.ends.size;
  }

  list(): RunExecution[] {
    return [...this.ends.keys()];
  }

  /** The runs as heartbeats list them. */
  heldRuns(): HeldRun[] {
    return this.list().flatMap(({ isHeld, claimed }) => (isHeld ? [claimed] : []));
  }

  /** Lost runs whose programs are being ended. */
  endingRuns(): EndingRun[] {
    return this.list().flatMap(({ ending }) => ending ?? []);
  }

  /** Starts an execution. Stops those of other attempts of the run, unless they are later ones, and waits for their ends first. */
  start(execution: RunExecution): void {
    const { id, attempt } = execution.claimed;
    const older = [...this.ends].filter(
      ([{ claimed }]) => claimed.id === id && (claimed.attempt ?? 0) <= (attempt ?? Infinity),
    );
    const why = `this worker claimed attempt ${attempt}`;
    for (const [other] of older) other.stop({ kind: 'lost', why });
    const end = this.execute(
      execution,
      older.map(([, ending]) => ending),
    );
    this.ends.set(
      execution,
      end.catch((error: unknown) => void this.events.emit('error', error)),
    );
    this.events.emit('news');
    if (this.draining.aborted) execution.drain();
    if (this.stopReason !== null) execution.stop(this.stopReason);
  }

  private async execute(execution: RunExecution, after: readonly Promise<void>[]): Promise<void> {
    try {
      await Promise.all(after);
      const end = await execution.run();
      if (end === 'unreported') this.unreported += 1;
      if (end === 'left') this.left.push(execution.claimed);
      this.events.emit('ended', execution, end);
    } finally {
      this.ends.delete(execution);
    }
  }

  /** The service says that the run of a heartbeat is lost. */
  lose(run: HeldRun, lost: LostRun): void {
    for (const execution of this.ends.keys()) {
      if (execution.claimed === run) execution.onOwnership(lost);
    }
  }

  /** @returns whether it is news */
  kill({ id, attempt }: EndingRun): boolean {
    const fresh = this.list().filter(
      ({ ending, isKilled }) => ending?.id === id && ending.attempt === attempt && !isKilled,
    );
    for (const execution of fresh) execution.kill();
    return fresh.length > 0;
  }

  /** Stops all, and those that start later. */
  stopAll(reason: StopReason): void {
    this.stopReason = reason;
    for (const execution of this.ends.keys()) execution.stop(reason);
  }

  async untilIdle(): Promise<void> {
    while (this.ends.size > 0) await Promise.all(this.ends.values());
  }
}
