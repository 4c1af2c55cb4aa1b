import { setImmediate as nextTurn } from 'node:timers/promises';
import { FairQueue, type FairItem } from './fair-queue.js';

export type CommandOutcome<R> = { readonly value: R } | { readonly error: unknown };

/** Lines have limits of their own. In a group, the first has most of the places if both need them. */
const LINES = ['reports', 'requests'] as const;
export type Line = (typeof LINES)[number];

/** Where a command waits. */
export interface Place {
  readonly line: Line;
  /** Owners of a line are served in turn. Undefined: an owner without limits. */
  readonly owner: string | undefined;
  readonly bytes: number;
}

/** Limits of the commands that wait in one line. */
export interface WaitingLimits {
  readonly commands: number;
  readonly commandsOfOwner: number;
  /** A larger command is accepted if no other waits. */
  readonly bytes: number;
  /** A larger command is accepted if the owner has no other that waits. */
  readonly bytesOfOwner: number;
}

export interface GroupCommitOptions<C, R> {
  readonly maxGroup: number;
  /** Maximum size of a group in bytes; each line may exceed it with one command. */
  readonly maxGroupBytes: number;
  readonly waiting: WaitingLimits;
  /**
   * Commits a group as one and returns one outcome per command, in order. If it throws, nothing was committed.
   * @param tries 1 for the first try of the group
   */
  readonly commit: (commands: readonly C[], tries: number) => Promise<readonly CommandOutcome<R>[]>;
  /** True for errors of the database as a whole: the commands are not retried one by one. */
  readonly isFatal: (error: unknown) => boolean;
  /** True for errors after which the same group is retried. @param tries as `commit` */
  readonly isRetryable: (error: unknown, commands: readonly C[], tries: number) => boolean;
  /** Milliseconds after which a commit counts as stuck and waiting commands are refused. Default 5 s. */
  readonly stuckAfterMs?: number;
}

/** Why the queue refuses a command: the current commit takes too long, too many commands wait, or too many of its owner. */
export const QUEUE_REFUSALS = ['stuck', 'overloaded', 'share'] as const;
export type QueueRefusal = (typeof QUEUE_REFUSALS)[number];
export type QueueState = 'ok' | Exclude<QueueRefusal, 'share'>;

/** Rejects a command that the queue refuses, or removes because a commit is stuck. The command was not carried out. */
export class QueueFull extends Error {
  /** @param limit the limit that is reached; undefined if a commit is stuck */
  constructor(
    readonly reason: QueueRefusal,
    readonly limit?: keyof WaitingLimits,
  ) {
    super(limit === undefined ? 'a commit takes too long' : `the limit of waiting ${limit} is reached`);
  }
}

interface Waiting<C, R> extends FairItem {
  readonly command: C;
  /** Ascending in order of arrival. */
  readonly arrival: number;
  readonly resolve: (value: R) => void;
  readonly reject: (error: unknown) => void;
}

const RETRIES = 3;

const STUCK_AFTER_MS = 5_000;

const NO_OWNER = '';

/** Share of a group that reports may fill while requests wait. */
const SHARE_OF_REPORTS = 0.75;

/**
 * Group commit: commands that arrive during a commit form the next group, without a timer. If they do not all fit, the
 * owners of each line are served in turn. A group is in order of arrival, and so are the commands of one owner and line.
 * If the commit of a group fails, its commands are committed one by one, so that a failing command does not affect the
 * others.
 */
export class GroupCommitQueue<C, R> {
  readonly #lines = { reports: new FairQueue<Waiting<C, R>>(), requests: new FairQueue<Waiting<C, R>>() };
  #arrivals = 0;
  #running: Promise<void> | undefined;
  #committing: Promise<unknown> | undefined;
  #isStuck = false;

  constructor(private readonly options: GroupCommitOptions<C, R>) {}

  get waiting(): number {
    return this.#lines.reports.size + this.#lines.requests.size;
  }

  get waitingBytes(): number {
    return this.#lines.reports.bytes + this.#lines.requests.bytes;
  }

  get state(): QueueState {
    const { commands, bytes } = this.options.waiting;
    if (this.#isStuck) return 'stuck';
    const isFull = LINES.some(
      (line) => this.#lines[line].size >= commands || this.#lines[line].bytes >= bytes,
    );
    return isFull ? 'overloaded' : 'ok';
  }

  /** Submits a command; resolves once its group is committed. @throws QueueFull, or the error of the command */
  submit(command: C, place: Place): Promise<R> {
    const refusal = this.#refusal(place);
    if (refusal) return Promise.reject(refusal);
    const { line, owner, bytes } = place;
    return new Promise<R>((resolve, reject) => {
      this.#arrivals += 1;
      this.#lines[line].push({
        command,
        owner: owner ?? NO_OWNER,
        bytes,
        arrival: this.#arrivals,
        resolve,
        reject,
      });
      this.#running ??= this.#run();
    });
  }

  /** Resolves when no command waits or is being committed. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  /** Resolves when the group that is being committed has ended. */
  async committed(): Promise<void> {
    await this.#committing;
  }

  async #run(): Promise<void> {
    // Commands of one turn of the event loop form one group: the first does not start alone.
    await nextTurn();
    while (this.waiting > 0) {
      const timer = setTimeout(() => this.#getStuck(), this.options.stuckAfterMs ?? STUCK_AFTER_MS);
      const group = this.#nextGroup();
      const committing = this.#outcomes(group.map(({ command }) => command));
      this.#committing = committing;
      const outcomes = await committing;
      clearTimeout(timer);
      this.#isStuck = false;
      if (outcomes.some((outcome) => 'error' in outcome)) {
        // Callers handle failures before the next group is decided: it may have commands that depend on them.
        answer(group, outcomes);
        await nextTurn();
      } else {
        // The database receives the next group before this process handles the answers to this one.
        const answered = nextTurn().then(() => answer(group, outcomes));
        if (this.waiting === 0) await answered;
      }
    }
    this.#running = undefined;
  }

  #refusal({ line, owner, bytes }: Place): QueueFull | undefined {
    if (this.#isStuck) return new QueueFull('stuck');
    const limits = this.options.waiting;
    const all = this.#lines[line];
    if (owner !== undefined) {
      const own = all.of(owner);
      if (own.size >= limits.commandsOfOwner) return new QueueFull('share', 'commandsOfOwner');
      if (own.size > 0 && own.bytes + bytes > limits.bytesOfOwner)
        return new QueueFull('share', 'bytesOfOwner');
    }
    if (all.size >= limits.commands) return new QueueFull('overloaded', 'commands');
    if (all.size > 0 && all.bytes + bytes > limits.bytes) return new QueueFull('overloaded', 'bytes');
    return undefined;
  }

  #getStuck(): void {
    this.#isStuck = true;
    for (const line of LINES) {
      for (const { reject } of this.#lines[line].clear()) reject(new QueueFull('stuck'));
    }
  }

  #nextGroup(): Waiting<C, R>[] {
    const { reports, requests } = this.#lines;
    const group: Waiting<C, R>[] = [];
    const bytes = this.#take(reports, group, 0, requests.size > 0 ? SHARE_OF_REPORTS : 1);
    this.#take(requests, group, bytes, 1);
    return group.toSorted((a, b) => a.arrival - b.arrival);
  }

  /** Moves commands of a line to the group, at least one. @returns bytes of the group */
  #take(line: FairQueue<Waiting<C, R>>, group: Waiting<C, R>[], groupBytes: number, share: number): number {
    const maxSize = this.options.maxGroup * share;
    const maxBytes = this.options.maxGroupBytes * share;
    const first = group.length;
    let bytes = groupBytes;
    for (let next = line.peek(); next !== undefined; next = line.peek()) {
      const isFull = group.length >= maxSize || bytes + next.bytes > maxBytes;
      if (isFull && group.length > first) break;
      line.take();
      group.push(next);
      bytes += next.bytes;
    }
    return bytes;
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
        if (tries > RETRIES || !this.options.isRetryable(error, commands, tries)) throw error;
      }
    }
  }
}

function answer<R>(group: readonly Waiting<unknown, R>[], outcomes: readonly CommandOutcome<R>[]): void {
  for (const [i, { resolve, reject }] of group.entries()) {
    const outcome = outcomes[i] ?? { error: new Error('the group has no outcome for this command') };
    if ('value' in outcome) resolve(outcome.value);
    else reject(outcome.error);
  }
}
