import { Backoff } from '@longshore/common/backoff';
import { isRunUnknown } from '../service-api/service-answer.js';
import type { ClaimedRun, Refusal, RunView } from '../service-api/service-api.js';
import type { WorkerContext } from '../worker-context.js';
import { lossReason } from './run-requests.js';

const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** What is found of attempts is asked about so many at a time: all are adopted well within the worker timeout. */
const AT_ONCE = 16;

/** A container or a job of an attempt that this process did not start. */
export interface FoundAttempt {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  /** That started it. */
  readonly workerId: string;
  /** Of its container or job, fit to be shown. */
  readonly id: string;
}

export interface AdoptionOptions<F> {
  /** Whether this process executes the attempt. */
  readonly isExecuted: (found: F) => boolean;
  /** Follows what this worker holds. */
  readonly adopt: (found: F, run: RunView) => void;
  /** The attempt is lost. */
  readonly remove: (found: F) => void;
  /** The service knows the run and does not show it: nothing is decided. */
  readonly onRefused?: (found: F, refusal: Refusal) => void;
}

/** What the service has said about an attempt. `deleted`: it does not know the run; `refused`: it does not show it for another reason. */
export type Settled = 'unanswered' | 'refused' | 'answered' | 'deleted';

/**
 * Decides about what is found of attempts. The service does: what belongs to an attempt that its worker holds is adopted when it is of
 * this worker, and left alone otherwise; what belongs to a lost attempt is removed, regardless of which worker started it.
 */
export class Adoptions<F extends FoundAttempt> {
  constructor(
    private readonly context: WorkerContext,
    private readonly options: AdoptionOptions<F>,
  ) {}

  /**
   * Settles all. Asks the service until it answers for one of them, so that one without an answer does not keep the others waiting.
   * @returns those about which nothing is decided
   */
  async recover(found: readonly F[], signal: AbortSignal): Promise<readonly F[]> {
    const { clock, random } = this.context;
    let hasAnswered = false;
    const undecided: F[] = [];
    await inGroups(found, async (one) => {
      const backoff = new Backoff(RETRY, random);
      let settled: Settled = 'unanswered';
      while (!signal.aborted) {
        settled = await this.settle(one, signal);
        hasAnswered ||= settled !== 'unanswered';
        if (!hasAnswered) await clock.sleep(backoff.nextMs(), signal);
        if (hasAnswered) break;
      }
      if (signal.aborted || settled === 'unanswered' || settled === 'refused') undecided.push(one);
    });
    return undecided;
  }

  async settle(found: F, signal: AbortSignal): Promise<Settled> {
    const { api, workerId, logger } = this.context;
    const { isExecuted, adopt, remove, onRefused } = this.options;
    const { id, runId: run, attempt } = found;
    const answer = await api.getRun(run);
    if (signal.aborted || isExecuted(found)) return 'answered';
    if (answer.kind === 'unreachable') return 'unanswered';
    if (answer.kind === 'refused') {
      const { status, detail } = answer;
      logger.debug({ id, run, status, detail }, 'the service does not show the run of an attempt');
      if (isRunUnknown(answer)) return 'deleted';
      onRefused?.(found, answer);
      return 'refused';
    }
    // The answer is older than what was found.
    if (answer.value.currentAttempt < attempt) return 'answered';
    const why = lossReason(answer.value, found.workerId, attempt);
    if (why !== null) {
      logger.info({ id, run, attempt, why }, 'removing what is left of a lost attempt');
      remove(found);
    } else if (found.workerId === workerId) {
      logger.info({ id, run, attempt }, 'adopting an attempt');
      adopt(found, answer.value);
    }
    return 'answered';
  }
}

/** The run of an attempt that is adopted, as its claim gave it. */
export function claimedAgain(id: string, run: RunView): ClaimedRun {
  const { image, inputs, constraints, container, artifacts, trace, currentAttempt: attempt } = run;
  return { id, image, inputs, constraints, attempt, container, ...(artifacts && { artifacts }), trace };
}

/** Does work for all, some at a time. */
export async function inGroups<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  for (let from = 0; from < all.length; from += AT_ONCE)
    await Promise.all(all.slice(from, from + AT_ONCE).map(work));
}
