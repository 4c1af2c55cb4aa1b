import assert from 'node:assert/strict';
import { shownCause } from '../../../src/runs/dto/op-run.dto.js';
import { showOptions } from '../../../src/runs/options/stored-options.js';
import { decideAt } from '../../../src/runs/machine/decide.fixtures.js';
import { isRejected, type RunCommand, type Rejection } from '../../../src/runs/machine/run-command.js';
import { rejectionDetail } from '../../../src/runs/run.errors.js';
import type { EndedAttempt, Run, TimelineEntry } from '../../../src/runs/machine/run.js';
import { assertError, bodyOf } from '../http/answer-shapes.js';
import type { Send, TestAnswer } from '../app/test-app.js';

const STATUS_OF_REJECTION: Readonly<Record<Rejection['reason'], number>> = {
  locked: 400,
  'retries-used-up': 400,
  'attempt-limit': 400,
  'other-worker': 409,
  'stale-attempt': 409,
  'not-in-execution': 409,
  'not-pending': 409,
  'nothing-due': 409,
  'too-many-labels': 400,
};

/** SERVICE_MAX_RECLAIMS of the processes; more would pause a run for a random time. */
export const MAX_RECLAIMS = 1;

/** Options that no run of the model has, as answers show them. */
const DEFAULT_OPTIONS = {
  ...showOptions(null),
  name: null,
  labels: {},
  selector: [],
  concurrency: null,
  start_at: null,
} as const;

/** What a run was created with and the machine only carries. */
export interface Carried {
  readonly image: string;
  readonly inputs: object;
  readonly outputs: object;
  readonly topic: string | null;
  readonly createdBy: object;
  readonly ramMb: number;
}

/** A run as the pure machine knows it, with everything that has happened to it. */
export class ModelRun {
  readonly entries: TimelineEntry[] = [];
  readonly ended: EndedAttempt[] = [];
  readonly #attemptIds = new Map<number, string>();

  constructor(
    public run: Run,
    readonly carried: Carried,
  ) {}

  /**
   * Carries out a command that the service has answered, and checks the answer: the machine's refusal to the letter,
   * or the whole run as the machine makes it.
   * @returns the state afterwards, or the reason of the refusal
   */
  answered(command: RunCommand, answer: TestAnswer): string {
    const now = answer.status === 200 ? new Date(answer.body.updatedAt) : this.run.updatedAt;
    assert.ok(now >= this.run.updatedAt, 'time never goes back within a run');
    const refusal = this.apply(command, now);
    if (refusal) {
      assertError(answer, STATUS_OF_REJECTION[refusal.reason], rejectionDetail(this.run.id, refusal));
      return refusal.reason;
    }
    assert.deepEqual(bodyOf(answer, 'OpRun'), this.expected());
    return this.run.state;
  }

  /** Carries out a command; answers why the machine refuses it, if it does. */
  apply(command: RunCommand, now: Date): Rejection | undefined {
    const outcome = decideAt(this.run, command, now, { limits: { maxReclaims: MAX_RECLAIMS } });
    if (isRejected(outcome)) return outcome.rejection;
    this.run = outcome.run;
    this.entries.push(...outcome.entries);
    if (outcome.endedAttempt) this.ended.push(outcome.endedAttempt);
    return undefined;
  }

  /** Checks that a service shows run and attempts as the machine has them. */
  async compare(send: Send): Promise<void> {
    const { id } = this.run;
    assert.deepEqual(bodyOf(await send('GET', `/runs/${id}`), 'OpRun'), this.expected());
    const attempts: { id: string; attempt: number }[] = bodyOf(
      await send('GET', `/runs/${id}/attempts`),
      'OpAttempts',
    );
    for (const { id: attemptId, attempt } of attempts) {
      const known = this.#attemptIds.get(attempt) ?? attemptId;
      assert.equal(attemptId, known, 'an attempt keeps its id');
      this.#attemptIds.set(attempt, attemptId);
    }
    assert.equal(new Set(this.#attemptIds.values()).size, this.#attemptIds.size);
    assert.deepEqual(
      attempts.map(({ id: _id, ...rest }) => rest),
      [...this.ended, this.run].map((attempt) => this.#expectedAttempt(attempt)),
    );
  }

  /** The answer of GET /runs/{id}. */
  expected(): object {
    const { run, carried } = this;
    return {
      id: run.id,
      state: run.state,
      priority: run.priority,
      progress: run.progress,
      current_attempt: run.attempt,
      image: carried.image,
      inputs: carried.inputs,
      outputs: run.outputs ?? carried.outputs,
      events: this.entries.map(shownEntry),
      execution_summary: {
        ...summaryOf(run),
        ...(run.reclaims > 0 && { reclaims: run.reclaims }),
        ...(run.ramMb > carried.ramMb && { asked_ram_mb: carried.ramMb }),
      },
      constraints: { ram_mb: run.ramMb, vram_mb: run.vramMb, cpu: run.cpu, gpu_id: run.gpuId },
      retry_policy: {
        max_attempts: run.maxAttempts,
        ...(run.retryOn !== null && { retry_on: run.retryOn.split(',') }),
        ...(run.extraConstraints?.grow && { grow: run.extraConstraints.grow }),
      },
      ...DEFAULT_OPTIONS,
      event_delivery: carried.topic === null ? null : { topic: carried.topic },
      op_definition: null,
      op_definition_version: null,
      source: null,
      rerun_of: null,
      schedule: null,
      group: null,
      array: null,
      reruns: 0,
      created_by: carried.createdBy,
      createdAt: run.createdAt.toISOString(),
      updatedAt: run.updatedAt.toISOString(),
    };
  }

  #expectedAttempt(attempt: Run | EndedAttempt): object {
    const { run, carried } = this;
    return {
      op_run_id: run.id,
      attempt: attempt.attempt,
      state: attempt.state,
      progress: attempt.progress,
      events: this.entries.filter((entry) => entry.attempt === attempt.attempt).map(shownEntry),
      inputs: carried.inputs,
      outputs: attempt.outputs ?? carried.outputs,
      execution_summary: summaryOf(attempt),
      constraints: {
        ram_mb: attempt.ramMb ?? run.ramMb,
        vram_mb: run.vramMb,
        cpu: run.cpu,
        gpu_id: attempt.gpuId,
      },
      started_at: attempt.startedAt?.toISOString() ?? null,
      finished_at: attempt.finishedAt?.toISOString() ?? null,
    };
  }
}

function shownEntry({ index, attempt, type, t, msg, payload }: TimelineEntry): object {
  return { id: index, attempt, type, t: t.toISOString(), msg, payload };
}

function summaryOf(attempt: Run | EndedAttempt): object {
  const {
    state,
    workerId,
    gpuId,
    errorMessage,
    exitCode,
    cancelReason,
    queuedAt,
    assignedAt,
    startedAt,
    finishedAt,
  } = attempt;
  const known = {
    worker_id: workerId,
    gpu_id: gpuId,
    assigned_at: assignedAt?.toISOString(),
    started_at: startedAt?.toISOString(),
    finished_at: finishedAt?.toISOString(),
    queued_ms: assignedAt ? assignedAt.getTime() - queuedAt.getTime() : null,
    duration_ms: startedAt && finishedAt ? finishedAt.getTime() - startedAt.getTime() : null,
    error_message: errorMessage,
    cause: shownCause(attempt),
    exit_code: state === 'FAILED' ? exitCode : null,
    cancel_reason: state === 'CANCELLED' ? cancelReason : null,
  };
  return Object.fromEntries(
    Object.entries(known).filter(([, value]) => value !== null && value !== undefined),
  );
}
