import { jsonText } from '@longshore/common/json/json-text';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '../backoff.js';
import { isKeyRefusal, type HeldRun, type Refusal, type Resources } from '../service-api/service-api.js';

/** Limit of the inputs of all runs in a heartbeat, in characters of JSON. */
const MAX_INPUTS_LENGTH = 64 * 1024;

/** Timing of heartbeats, in whole milliseconds. */
export interface HeartbeatPlan {
  /** Pause after a success. */
  readonly intervalMs: number;
  /** Timeout of one request. */
  readonly timeoutMs: number;
  /** Longest pause after a failure. */
  readonly maxPauseMs: number;
}

const MAX_TIMEOUT_MS = 10_000;
const MIN_MS = 10;

/** Plans heartbeats so that two of three may fail: pause and timeout together are at most a third of the worker timeout. */
export function planHeartbeats(tickSeconds: number, workerTimeoutSeconds: number): HeartbeatPlan {
  const thirdMs = (workerTimeoutSeconds * 1000) / 3;
  const intervalMs = toWholeMs(Math.min(tickSeconds * 1000, thirdMs / 2));
  const timeoutMs = toWholeMs(Math.min(MAX_TIMEOUT_MS, thirdMs - intervalMs));
  return { intervalMs, timeoutMs, maxPauseMs: Math.max(intervalMs, toWholeMs(thirdMs - timeoutMs)) };
}

export interface HeartbeatOptions {
  readonly resources: Resources;
  readonly tags: readonly string[];
  readonly tickSeconds: number;
  /** Used until the service sends its own value. */
  readonly workerTimeoutSeconds: number;
  /** The runs of this worker, from the claim to the accepted final event. */
  readonly heldRuns: () => readonly HeldRun[];
  /** Called after the first accepted heartbeat. */
  readonly onRegistered: () => void;
  /** Called after every accepted heartbeat. */
  readonly onAccepted: () => void;
  /** Called when the service refuses the first heartbeat, which means a wrong configuration. */
  readonly onRejected: (refusal: Refusal) => void;
}

/** Sends heartbeats that list the runs of this worker, independent of the worker's other tasks. */
export class HeartbeatLoop {
  private workerTimeoutSeconds: number;
  private registered = false;
  private withInputs = true;
  private failing = false;

  constructor(
    private readonly context: WorkerContext,
    private readonly options: HeartbeatOptions,
  ) {
    this.workerTimeoutSeconds = options.workerTimeoutSeconds;
  }

  /** Seconds without a heartbeat after which the service treats this worker as stale. */
  get timeoutSeconds(): number {
    return this.workerTimeoutSeconds;
  }

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    let backoff: Backoff | null = null;
    while (!signal.aborted) {
      const failure = await this.send();
      const { intervalMs, maxPauseMs } = planHeartbeats(this.options.tickSeconds, this.workerTimeoutSeconds);
      let pauseMs = intervalMs;
      if (failure === null) {
        backoff = null;
      } else {
        backoff ??= new Backoff({ firstMs: intervalMs, maxMs: maxPauseMs }, this.context.random);
        pauseMs = Math.min(backoff.nextMs(failure.retryAfterSeconds), maxPauseMs);
      }
      await this.context.clock.sleep(pauseMs, signal);
    }
  }

  /** @returns null when the heartbeat was accepted */
  private async send(): Promise<{ retryAfterSeconds?: number } | null> {
    const { api, logger, workerId, onKeyRefused } = this.context;
    const { resources, tags, heldRuns, tickSeconds } = this.options;
    const { timeoutMs } = planHeartbeats(tickSeconds, this.workerTimeoutSeconds);
    const runningOps = listHeldRuns(heldRuns(), this.withInputs ? MAX_INPUTS_LENGTH : 0);
    const answer = await api.heartbeat({ workerId, resources, tags, runningOps }, timeoutMs);
    if (answer.kind === 'ok') {
      this.workerTimeoutSeconds = answer.value.workerTimeoutSeconds ?? this.workerTimeoutSeconds;
      if (this.failing) logger.info('heartbeats are accepted again');
      this.failing = false;
      if (!this.registered) {
        this.registered = true;
        logger.info({ workerTimeoutSeconds: this.workerTimeoutSeconds }, 'registered at the service');
        this.options.onRegistered();
      }
      this.options.onAccepted();
      return null;
    }
    if (answer.kind === 'refused') {
      if (isKeyRefusal(answer)) {
        onKeyRefused(answer);
        return {};
      }
      this.withInputs &&= answer.status !== 413;
      if (!this.registered && answer.status !== 413) this.options.onRejected(answer);
    }
    if (!this.failing) logger.warn({ answer }, 'heartbeat not accepted, retrying');
    this.failing = true;
    return answer.kind === 'unreachable' ? { retryAfterSeconds: answer.retryAfterSeconds ?? 0 } : {};
  }
}

/**
 * The runs as a heartbeat lists them: each once, and with inputs only up to a total length, because a heartbeat above the
 * service's size limit would cost the worker all its runs.
 */
export function listHeldRuns(runs: readonly HeldRun[], maxInputsLength: number): HeldRun[] {
  const listed = new Map<string, HeldRun>();
  let room = maxInputsLength;
  for (const run of runs) {
    const { id, image, inputs, constraints } = run;
    const length = jsonText(inputs).length;
    const fits = length <= room;
    if (fits) room -= length;
    listed.set(id, { id, image, inputs: fits ? inputs : {}, constraints });
  }
  return [...listed.values()];
}

function toWholeMs(ms: number): number {
  return Math.max(MIN_MS, Math.floor(ms));
}
