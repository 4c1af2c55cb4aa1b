import assert from 'node:assert/strict';
import {
  GroupCommitQueue,
  type CommandOutcome,
  type GroupCommitOptions,
  type Place,
  type WaitingLimits,
} from './group-commit-queue.js';

/** A commit that has begun. */
export interface Deferred {
  readonly commands: readonly string[];
  readonly resolve: (outcomes: readonly CommandOutcome<string>[]) => void;
  readonly reject: (error: unknown) => void;
}

export const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** Every command is answered by itself in capitals. */
export const done = (commands: readonly string[]): CommandOutcome<string>[] =>
  commands.map((command) => ({ value: command.toUpperCase() }));

class PlacingQueue extends GroupCommitQueue<string, string> {
  constructor(
    private readonly placeOf: (command: string) => Place,
    options: GroupCommitOptions<string, string>,
  ) {
    super(options);
  }

  override submit(command: string): Promise<string> {
    return super.submit(command, this.placeOf(command));
  }
}

/** A queue whose commits end when the test says so. */
export function makeQueue(
  options: {
    maxGroup?: number;
    maxGroupBytes?: number;
    waiting?: Partial<WaitingLimits>;
    placeOf?: (command: string) => Place;
    stuckAfterMs?: number;
  } = {},
) {
  const commits: Deferred[] = [];
  const sizes: number[] = [];
  const placeOf =
    options.placeOf ??
    ((command: string): Place => ({ line: 'requests', owner: undefined, bytes: command.length }));
  const it = new PlacingQueue(placeOf, {
    maxGroup: options.maxGroup ?? 100,
    maxGroupBytes: options.maxGroupBytes ?? 1000,
    waiting: { commands: 1000, commandsOfOwner: 1000, bytes: 1000, bytesOfOwner: 1000, ...options.waiting },
    ...(options.stuckAfterMs === undefined ? {} : { stuckAfterMs: options.stuckAfterMs }),
    commit: async (commands) => {
      const outcomes = await new Promise<readonly CommandOutcome<string>[]>((resolve, reject) =>
        commits.push({ commands, resolve, reject }),
      );
      sizes.push(commands.length);
      return outcomes;
    },
    isFatal: (error) => error === 'database away',
    isRetryable: (error) => error === 'deadlock',
  });
  const commit = async (n: number): Promise<Deferred> => {
    await tick();
    const found = commits[n];
    assert.ok(found, `commit ${n} has begun`);
    return found;
  };
  return { it, commits, sizes, commit };
}
