import { setImmediate as nextTurn } from 'node:timers/promises';

export type CommandOutcome<R> = { readonly value: R } | { readonly error: unknown };

export interface GroupCommitOptions<C, R> {
  readonly maxGroup: number;
  /** Maximum number of waiting commands; more are refused. */
  readonly maxWaiting: number;
  readonly weigh: (command: C) => number;
  /** Maximum size of a group in bytes; a larger command forms a group of its own. */
  readonly maxGroupBytes: number;
  /** Maximum size of the waiting commands in bytes; a larger command is accepted if no other waits. */
  readonly maxWaitingBytes: number;
  /**
   * Commits a group as one and returns one outcome per command, in order. If it throws, nothing was committed.
   * @param tries 1 for the first try of the group
   */
  readonly commit: (commands: readonly C[], tries: number) => Promise<readonly CommandOutcome<R>[]>;
  /** True for errors of the database as a whole: the commands are not retried one by one. */
  readonly isFatal: (error: unknown) => boolean;
  /** True for errors after which the same group is retried. */
  readonly isRetryable: (error: unknown) => boolean;
  /** Milliseconds after which a commit counts as stuck and waiting commands are refused. Default 5 s. */
  readonly stuckAfterMs?: number;
}

/** Why the queue refuses a command: the current commit takes too long, or too many commands wait. */
export const QUEUE_REFUSALS = ['stuck', 'overloaded'] as const;
export type QueueRefusal = (typeof QUEUE_REFUSALS)[number];
export type QueueState = 'ok' | QueueRefusal;

/** Rejects a command that the queue refuses, or removes because a commit is stuck. The command was not carried out. */
export class QueueFull extends Error {
  constructor(
    readonly reason: QueueRefusal,
    message: string,
  ) {
    super(message);
  }
}

interface Waiting<C, R> {
  readonly command: C;
  readonly bytes: number;
  readonly resolve: (value: R) => void;
  readonly reject: (error: unknown) => void;
}

const RETRIES = 3;

const STUCK_AFTER_MS = 5_000;

/**
 * Group commit: commands that arrive during a commit form the next group, without a timer. If the commit of a group
 * fails, its commands are committed one by one, so that a failing command does not affect the others.
 */
export class GroupCommitQueue<C, R> {
  #waiting: Waiting<C, R>[] = [];
  #waitingBytes = 0;
  #running: Promise<void> | undefined;
  #isStuck = false;

  constructor(private readonly options: GroupCommitOptions<C, R>) {}

  get waiting(): number {
    return this.#waiting.length;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  get state(): QueueState {
    const { maxWaiting, maxWaitingBytes } = this.options;
    if (this.#isStuck) return 'stuck';
    const isFull = this.#waiting.length >= maxWaiting || this.#waitingBytes >= maxWaitingBytes;
    return isFull ? 'overloaded' : 'ok';
  }

  /** Submits a command; resolves once its group is committed. @throws QueueFull, or the error of the command */
  submit(command: C): Promise<R> {
    const { maxWaiting, maxWaitingBytes, weigh } = this.options;
    const waiting = this.#waiting.length;
    const bytes = weigh(command);
    const isTooMuch = waiting > 0 && this.#waitingBytes + bytes > maxWaitingBytes;
    if (this.#isStuck) return Promise.reject(new QueueFull('stuck', 'a commit takes too long'));
    if (waiting >= maxWaiting || isTooMuch) {
      return Promise.reject(new QueueFull('overloaded', `${waiting} commands are waiting already`));
    }
    return new Promise<R>((resolve, reject) => {
      this.#waiting.push({ command, bytes, resolve, reject });
      this.#waitingBytes += bytes;
      this.#running ??= this.#run();
    });
  }

  /** Resolves when no command waits or is being committed. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    // Commands of one turn of the event loop form one group: the first does not start alone.
    await nextTurn();
    while (this.#waiting.length > 0) {
      const timer = setTimeout(() => this.#getStuck(), this.options.stuckAfterMs ?? STUCK_AFTER_MS);
      await this.#commit(this.#nextGroup());
      clearTimeout(timer);
      this.#isStuck = false;
    }
    this.#running = undefined;
  }

  #getStuck(): void {
    this.#isStuck = true;
    this.#waitingBytes = 0;
    for (const { reject } of this.#waiting.splice(0)) {
      reject(new QueueFull('stuck', 'a commit takes too long'));
    }
  }

  #nextGroup(): Waiting<C, R>[] {
    const { maxGroup, maxGroupBytes } = this.options;
    let bytes = 0;
    let size = 0;
    for (const next of this.#waiting) {
      if (size === maxGroup || (size > 0 && bytes + next.bytes > maxGroupBytes)) break;
      bytes += next.bytes;
      size += 1;
    }
    this.#waitingBytes -= bytes;
    return this.#waiting.splice(0, size);
  }

  async #commit(group: readonly Waiting<C, R>[]): Promise<void> {
    const outcomes = await this.#outcomes(group.map(({ command }) => command));
    group.forEach(({ resolve, reject }, i) => {
      const outcome = outcomes[i] ?? { error: new Error('the group has no outcome for this command') };
      if ('value' in outcome) resolve(outcome.value);
      else reject(outcome.error);
    });
  }

  async #outcomes(commands: readonly C[]): Promise<readonly CommandOutcome<R>[]> {
    const { isFatal } = this.options;
    try {
      return await this.#attempt(commands);
    } catch (error) {
      if (commands.length === 1 || isFatal(error)) return commands.map(() => ({ error }));
    }
    const outcomes: CommandOutcome<R>[] = [];
    for (const [i, command] of commands.entries()) {
      try {
        outcomes.push(...(await this.#attempt([command])));
      } catch (error) {
        if (isFatal(error)) return [...outcomes, ...commands.slice(i).map(() => ({ error }))];
        outcomes.push({ error });
      }
    }
    return outcomes;
  }

  async #attempt(commands: readonly C[]): Promise<readonly CommandOutcome<R>[]> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.options.commit(commands, tries);
      } catch (error) {
        if (tries > RETRIES || !this.options.isRetryable(error)) throw error;
      }
    }
  }
}
