import type { Logger } from 'pino';
import { Backoff } from '@longshore/common/backoff';
import { jsonText } from '@longshore/common/json/json-text';
import { RunFault } from '../runtime/runtime.js';
import { signedQueries } from '../secrets/signed-urls.js';
import {
  secretNames,
  type Answer,
  type ClaimedRun,
  type Refusal,
  type RunSecrets,
  type RunView,
  type TimelineEntry,
  type RunOwnership,
} from '../service-api/service-api.js';
import type { RunArtifacts, Upload, UploadRequest } from '../service-api/run-artifacts.js';
import type { WorkerContext } from '../worker-context.js';
import { Refused } from './outcome.js';
import { Stopped, type StopSignal } from './stop-signal.js';
import { TERMINAL_STATES } from '@longshore/client/constants';

const RETRY = { firstMs: 500, maxMs: 15_000 };

/** How long a service that cannot give secrets is asked again, in milliseconds. */
const SECRETS_MS = 60_000;

/** What the service says when it cannot decrypt. It is permanent, unless processes of the service differ. */
const UNAVAILABLE = /Secrets are not configured|Secret '.*' cannot be decrypted/;

/** Why an answer cannot be read, however often the service is asked. */
const TOO_LARGE = /larger than SERVICE_WORKER_MAX_ANSWER_BYTES/;

/** What the service says when it has no store of files. */
const NO_STORE = /Files are not configured/;

const NO_SECRETS: RunSecrets = { env: {}, files: {}, registry: null };

/** What an execution asks the service for before its container starts. */
export class RunRequests {
  constructor(
    private readonly context: WorkerContext,
    private readonly claimed: ClaimedRun,
    private readonly stopSignal: StopSignal,
    private readonly logger: Logger,
  ) {}

  /**
   * Reads the run until there is an answer, and checks that it is assigned to this worker. The claim does not return the
   * template of the outputs, and that of an older service not the attempt; heartbeats tell of a loss from the claim on.
   * @param attempt null: not known yet
   * @throws Stopped when the attempt is lost or the execution is stopped
   * @throws Refused when the service refuses to show it
   */
  async getRun(attempt: number | null): Promise<RunView> {
    const { api, workerId } = this.context;
    const answer = await this.untilAnswered('the run', () =>
      api.getRun(this.claimed.id, { workerId, attempt }),
    );
    if (answer.kind === 'refused')
      throw new Refused(`The service refused to show the run (${answer.status}): ${answer.detail}`);
    const why = lossReason(answer.value, workerId, attempt);
    if (why !== null) throw new Stopped({ kind: 'lost', why });
    return answer.value;
  }

  /** Whether the program finds signed URLs in its inputs and template. @throws as {@link getRun} */
  async hasSignedUrls(attempt: number | null): Promise<boolean> {
    const { inputs, outputs } = await this.getRun(attempt);
    return signedQueries(jsonText(inputs), jsonText(outputs)).length > 0;
  }

  /** The files that the run gets, with fresh URLs. @throws as {@link getRun} */
  async getSources(attempt: number | null): Promise<RunArtifacts['in']> {
    return (await this.getRun(attempt)).artifacts?.in ?? {};
  }

  /**
   * Reads the newest entries of the run's timeline until there is an answer. Empty when there is none that can be read.
   * @throws Stopped when the execution is stopped
   */
  async getTimeline(): Promise<readonly TimelineEntry[]> {
    const answer = await this.untilAnswered('the timeline of the run', async () => {
      const given = await this.context.api.getTimeline(this.claimed.id);
      const isTooLarge = given.kind === 'unreachable' && TOO_LARGE.test(given.reason);
      return isTooLarge ? { kind: 'ok', value: [] } : given;
    });
    return answer.kind === 'ok' ? answer.value : [];
  }

  /**
   * Reads the values of the run's secrets, without a request if it uses none. Keep them in memory only.
   * @throws Stopped when the attempt is lost or the execution is stopped
   * @throws RunFault when one does not exist, or the service cannot decrypt it for {@link SECRETS_MS}
   * @throws Refused when the service refuses them for another reason
   */
  async getSecrets(attempt: number | null): Promise<RunSecrets> {
    const { api, clock, workerId } = this.context;
    const { id, container } = this.claimed;
    const names = secretNames(container);
    if (names.length === 0) return NO_SECRETS;
    const untilMs = clock.nowMs() + SECRETS_MS;
    const answer = await this.untilAnswered('the secrets of the run', async () => {
      const given = await api.getSecrets(id, { workerId, attempt });
      const isLate = clock.nowMs() >= untilMs;
      if (given.kind === 'unreachable' && isLate && UNAVAILABLE.test(given.reason))
        throw new RunFault(`The service could not give the run's secrets: ${given.reason}`);
      // A process of an older version does not know the route.
      const isUnknownRoute = given.kind === 'refused' && given.status === 404 && !namesOne(given, names);
      if (!isUnknownRoute || isLate) return given;
      return { kind: 'unreachable', reason: `HTTP 404: ${given.detail}` };
    });
    if (answer.kind === 'ok') return answer.value;
    if (answer.status === 409) throw new Stopped({ kind: 'lost', why: answer.detail });
    const message = `The service refused the run's secrets (${answer.status}): ${answer.detail}`;
    throw answer.status === 404 ? new RunFault(message) : new Refused(message);
  }

  /**
   * Asks for fresh URLs to which the run's files go, until there is an answer.
   * @throws Stopped when the attempt is lost or the execution is stopped
   * @throws Refused when the service refuses, or has no store
   */
  async getUploads(
    attempt: number | null,
    request: UploadRequest,
  ): Promise<Readonly<Record<string, Upload>>> {
    const { api, workerId } = this.context;
    const answer = await this.untilAnswered('where the files of the run go', async () => {
      const given = await api.getUploads(this.claimed.id, request, { workerId, attempt });
      if (given.kind === 'unreachable' && NO_STORE.test(given.reason)) throw new Refused(given.reason);
      return given;
    });
    if (answer.kind === 'ok') return answer.value;
    if (answer.status === 409) throw new Stopped({ kind: 'lost', why: answer.detail });
    throw new Refused(`The service takes no files of the run (${answer.status}): ${answer.detail}`);
  }

  /** @throws Stopped when the execution is stopped */
  private async untilAnswered<T>(
    what: string,
    ask: () => Promise<Answer<T>>,
  ): Promise<Exclude<Answer<T>, { kind: 'unreachable' }>> {
    const { clock, random } = this.context;
    const backoff = new Backoff(RETRY, random);
    for (;;) {
      this.stopSignal.check();
      const answer = await this.stopSignal.abortable(ask());
      if (answer.kind !== 'unreachable') return answer;
      this.logger.warn({ reason: answer.reason }, `could not read ${what}, retrying`);
      await clock.sleep(backoff.nextMs(answer.retryAfterSeconds), this.stopSignal.signal);
    }
  }
}

function namesOne({ detail }: Refusal, names: readonly string[]): boolean {
  return names.some((name) => detail.includes(`'${name}'`));
}

const MAX_PAUSE_MS = 8_000;

interface PolledAttempt {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly tickMs: number;
  readonly logger: Logger;
}

/**
 * Polls the run of an older service once per tick until the attempt is lost or the signal is aborted. Only the state in an
 * answer counts: a 404, an error or no answer never stops the attempt.
 * @returns why the attempt is lost; null when the signal was aborted
 */
export async function pollRun(
  { api, clock, random, workerId, terms }: WorkerContext,
  { runId, attempt, tickMs, logger }: PolledAttempt,
  signal: AbortSignal,
): Promise<string | null> {
  const backoff = new Backoff({ firstMs: tickMs, maxMs: Math.max(tickMs, MAX_PAUSE_MS) }, random);
  let pauseMs = tickMs;
  for (;;) {
    await clock.sleep(pauseMs, signal);
    if (signal.aborted) return null;
    if (terms.tellsLostRuns) continue;
    const answer = await api.getRun(runId);
    if (signal.aborted) return null;
    switch (answer.kind) {
      case 'ok': {
        const why = lossReason(answer.value, workerId, attempt);
        if (why !== null) return why;
        backoff.reset();
        pauseMs = tickMs;
        break;
      }
      case 'refused':
        logger.debug({ status: answer.status, detail: answer.detail }, 'could not poll the run');
        pauseMs = backoff.nextMs();
        break;
      case 'unreachable':
        logger.debug({ reason: answer.reason }, 'could not poll the run');
        pauseMs = backoff.nextMs(answer.retryAfterSeconds);
        break;
    }
  }
}

/**
 * @param attempt null: not known yet
 * @returns why the attempt is no longer assigned to this worker, as one sentence; null when it is
 */
export function lossReason(run: RunOwnership, workerId: string, attempt: number | null): string | null {
  if (attempt !== null && run.currentAttempt !== attempt) {
    return `the run is at attempt ${run.currentAttempt}, this was attempt ${attempt}`;
  }
  if (TERMINAL_STATES.has(run.state)) return `the run is ${run.state}`;
  if (run.workerId === null) return 'the run is assigned to no worker';
  if (run.workerId !== workerId) return `the run is assigned to worker '${run.workerId}'`;
  return null;
}
