import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '../backoff.js';
import { planHeartbeats } from './heartbeat-plan.js';
import { isKeyRefusal, type HeldRun, type Refusal, type Resources } from '../service-api/service-api.js';

/** Most that the inputs of all runs may add to a heartbeat, in characters of JSON. */
const MAX_INPUTS = 64 * 1024;

/** What heartbeats say and how often. */
export interface HeartbeatOptions {
  readonly resources: Resources;
  readonly tags: readonly string[];
  readonly tickSeconds: number;
  /** The service's own word replaces it as soon as it is known. */
  readonly workerTimeoutSeconds: number;
  /** Every run that this worker holds, from the claim to the acknowledged last event. */
  readonly heldRuns: () => readonly HeldRun[];
  /** Called at the first heartbeat that the service takes. */
  readonly onRegistered: () => void;
  /** Called at every heartbeat that the service takes. */
  readonly onTaken: () => void;
  /** Called when the service refuses the very first heartbeat: the worker is set up wrongly. */
  readonly onMisfit: (refusal: Refusal) => void;
}

/** Tells the service that this worker lives and what it is doing, whatever else the worker is doing. */
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

  /** Seconds of silence after which the service gives this worker up, as far as known. */
  get timeoutSeconds(): number {
    return this.workerTimeoutSeconds;
  }

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    let backoff: Backoff | null = null;
    while (!signal.aborted) {
      const asked = await this.beat();
      const { intervalMs, maxPauseMs } = planHeartbeats(this.options.tickSeconds, this.workerTimeoutSeconds);
      let pauseMs = intervalMs;
      if (asked === null) {
        backoff = null;
      } else {
        backoff ??= new Backoff({ firstMs: intervalMs, maxMs: maxPauseMs }, this.context.random);
        pauseMs = Math.min(backoff.nextMs(asked.retryAfterSeconds), maxPauseMs);
      }
      await this.context.clock.sleep(pauseMs, signal);
    }
  }

  /** One heartbeat. @returns null when it was taken, else what the service asked for */
  private async beat(): Promise<{ retryAfterSeconds?: number } | null> {
    const { api, logger, workerId, onKeyRefused } = this.context;
    const { resources, tags, heldRuns, tickSeconds } = this.options;
    const { timeLimitMs } = planHeartbeats(tickSeconds, this.workerTimeoutSeconds);
    const runningOps = listHeldRuns(heldRuns(), this.withInputs ? MAX_INPUTS : 0);
    const answer = await api.heartbeat({ workerId, resources, tags, runningOps }, timeLimitMs);
    if (answer.kind === 'ok') {
      this.workerTimeoutSeconds = answer.value.workerTimeoutSeconds ?? this.workerTimeoutSeconds;
      if (this.failing) logger.info('heartbeats are taken again');
      this.failing = false;
      if (!this.registered) {
        this.registered = true;
        logger.info({ workerTimeoutSeconds: this.workerTimeoutSeconds }, 'registered at the service');
        this.options.onRegistered();
      }
      this.options.onTaken();
      return null;
    }
    if (answer.kind === 'refused') {
      if (isKeyRefusal(answer)) {
        onKeyRefused(answer);
        return {};
      }
      this.withInputs &&= answer.status !== 413;
      if (!this.registered && answer.status !== 413) this.options.onMisfit(answer);
    }
    if (!this.failing) logger.warn({ answer }, 'heartbeat not taken, trying on');
    this.failing = true;
    return answer.kind === 'unreachable' ? { retryAfterSeconds: answer.retryAfterSeconds ?? 0 } : {};
  }
}

/**
 * The runs as a heartbeat lists them: each once, and with inputs only as long as those stay small altogether, because a
 * heartbeat that the service finds too large would cost the worker all its runs.
 */
export function listHeldRuns(runs: readonly HeldRun[], maxInputs: number): HeldRun[] {
  const listed = new Map<string, HeldRun>();
  let room = maxInputs;
  for (const run of runs) {
    const { id, image, inputs, constraints } = run;
    const length = JSON.stringify(inputs).length;
    const fits = length <= room;
    if (fits) room -= length;
    listed.set(id, { id, image, inputs: fits ? inputs : {}, constraints });
  }
  return [...listed.values()];
}
