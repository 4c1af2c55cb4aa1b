import { Backoff } from '@longshore/common/backoff';
import { errorText } from '@longshore/common/errors';
import { Adoptions, inGroups, type FoundAttempt } from '../execution/adoption.js';
import type { FoundContainer, Runtime } from '../runtime/runtime.js';
import type { Answer, HeldAttempt, LogPosition, RunView } from '../service-api/service-api.js';
import type { WorkerContext } from '../worker-context.js';

const RETRY = { firstMs: 1000, maxMs: 5_000 };

/** How often the service is asked, at most, before the worker claims, where no container depends on the answer. */
const HELD_TRIES = 10;

/** Interval between questions about what the service has not decided yet, in milliseconds. */
const UNDECIDED_MS = 2_000;

const NO_LOG: LogPosition = { nextChunk: 0, nextLine: 0 };

/** An attempt that an earlier process of this worker had. */
interface EarlierAttempt extends FoundAttempt {
  /** Null: there is no started one. */
  readonly container: FoundContainer | null;
}

export interface RecoveryOptions {
  readonly runtime: Runtime;
  /** Whether an earlier process had the id on this machine. */
  readonly isSuccessor: boolean;
  readonly isExecuted: (runId: string, attempt: number) => boolean;
  /** Goes on with an attempt. @param container null: it is gone, which is reported */
  readonly adopt: (runId: string, run: RunView, container: FoundContainer | null, log: LogPosition) => void;
  /** Removes the containers of this worker that belong to no attempt of this process. */
  readonly removeOthers: (signal: AbortSignal) => Promise<void>;
  /** Called when the worker may claim. */
  readonly onDone: () => void;
}

/** Goes on with what an earlier process of this worker has left on this machine. */
export class LocalRecovery {
  private readonly adoptions: Adoptions<EarlierAttempt>;
  private held: readonly HeldAttempt[] = [];
  /** Containers of another process, which may still run. */
  private foreign: readonly FoundContainer[] = [];
  /** About which the service has not decided. */
  private undecided: readonly EarlierAttempt[] = [];
  /** What the service answered instead of a run, by its id. */
  private readonly refusals = new Map<string, string>();
  private isSettled = false;
  private done = false;

  constructor(
    private readonly context: WorkerContext,
    private readonly options: RecoveryOptions,
  ) {
    const { isExecuted, adopt } = options;
    this.adoptions = new Adoptions(context, {
      isExecuted: ({ runId, attempt }) => isExecuted(runId, attempt),
      adopt: (found, run) => adopt(found.runId, run, found.container, this.logOf(found)),
      // With all that is left, before the first claim.
      remove: () => undefined,
      onRefused: ({ runId }, { status, detail }) => this.refusals.set(runId, `${status} ${detail}`),
    });
  }

  /** Whether each container on this machine belongs to an attempt of this process: until then, none is claimed. */
  get isDone(): boolean {
    return this.done;
  }

  /** Adopts containers. Call it before the first heartbeat. While the service does not answer, they go on. */
  async recover(signal: AbortSignal): Promise<void> {
    const { runtime } = this.options;
    const find = (): Promise<readonly FoundContainer[]> => runtime.findLeft();
    const found = await this.untilDone('look for containers of a previous process', find, signal);
    this.foreign = found.filter(({ isOwn }) => !isOwn);
    const own = found.filter(({ isOwn }) => isOwn);
    if (own.length > 0) await this.settleAll(own, signal);
  }

  /** Settles what is not settled yet. */
  async run(signal: AbortSignal): Promise<void> {
    if (!this.isSettled) await this.settleAll([], signal);
    for (;;) {
      // Beside heartbeats: what cannot be removed for long costs the adopted runs nothing.
      await this.finish(signal);
      if (this.isDone || signal.aborted) return;
      await this.context.clock.sleep(UNDECIDED_MS, signal);
      await this.settleOwn(this.undecided, signal);
    }
  }

  private async settleAll(found: readonly FoundContainer[], signal: AbortSignal): Promise<void> {
    const { api, workerId, logger } = this.context;
    if (found.length > 0)
      logger.info({ containers: found.length }, 'found containers of an earlier process of this worker');
    const read = async (): Promise<readonly HeldAttempt[]> => answered(await api.listHeld(workerId));
    // Without containers, the worker timeout does the same, though later.
    const tries = found.length > 0 ? Infinity : HELD_TRIES;
    this.held = await this.untilDone('read which runs this worker holds', read, signal, tries);
    await this.settleOwn(
      found.map((container) => this.earlier(container, container)),
      signal,
    );
    this.isSettled = true;
  }

  private async settleOwn(found: readonly EarlierAttempt[], signal: AbortSignal): Promise<void> {
    const { obstacles, logger } = this.context;
    this.refusals.clear();
    this.undecided = await this.adoptions.recover(found, signal);
    const [first] = this.undecided.map(({ runId }) => runId).toSorted();
    if (first === undefined || signal.aborted) return;
    const why = `GET /runs/${first} gets ${this.refusals.get(first) ?? 'no answer'}`;
    const message = `the service does not tell whether to go on with containers of an earlier process: ${why}`;
    if (!obstacles.has('recovering'))
      logger.warn(
        { why, containers: this.undecided.length },
        'no claims until the service shows the runs of all containers',
      );
    obstacles.set('recovering', message);
  }

  private async finish(signal: AbortSignal): Promise<void> {
    if (this.undecided.length > 0 || signal.aborted) return;
    await this.options.removeOthers(signal);
    if (signal.aborted) return;
    if (this.options.isSuccessor) await this.reportGone(signal);
    this.done = true;
    this.context.obstacles.clear('recovering');
    this.options.onDone();
  }

  /** What this worker holds and does not execute has no container: it starts again at once, not after the worker timeout. */
  private async reportGone(signal: AbortSignal): Promise<void> {
    const { isExecuted } = this.options;
    const gone = this.held.filter(
      ({ runId, attempt }) =>
        !isExecuted(runId, attempt) &&
        !this.foreign.some((one) => one.runId === runId && one.attempt === attempt),
    );
    await inGroups(gone, async (attempt) => {
      await this.adoptions.settle(this.earlier(attempt, null), signal);
    });
  }

  private earlier(
    { runId, attempt }: Pick<HeldAttempt, 'runId' | 'attempt'>,
    container: FoundContainer | null,
  ): EarlierAttempt {
    return { runId, attempt, workerId: this.context.workerId, id: container?.id ?? '', container };
  }

  private logOf({ runId, attempt }: EarlierAttempt): LogPosition {
    return this.held.find((one) => one.runId === runId && one.attempt === attempt)?.log ?? NO_LOG;
  }

  /** @param what for the worker's log, after "could not". @returns nothing after so many tries, or when the signal is aborted */
  private async untilDone<T>(
    what: string,
    step: () => Promise<readonly T[]>,
    signal: AbortSignal,
    tries = Infinity,
  ): Promise<readonly T[]> {
    const { clock, logger, random, obstacles } = this.context;
    const backoff = new Backoff(RETRY, random);
    for (let count = 1; count <= tries && !signal.aborted; count++) {
      try {
        return await step();
      } catch (error) {
        logger.warn({ error: errorText(error) }, `could not ${what}, retrying`);
        obstacles.set('recovering', `could not ${what}`);
      }
      await clock.sleep(backoff.nextMs(), signal);
    }
    return [];
  }
}

/** The attempts; none from an older service. @throws Error when there is no answer */
function answered(answer: Answer<readonly HeldAttempt[]>): readonly HeldAttempt[] {
  if (answer.kind === 'unreachable') throw new Error(answer.reason);
  return answer.kind === 'ok' ? answer.value : [];
}
