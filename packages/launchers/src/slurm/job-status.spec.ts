import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { JobStatus } from '../launcher/engine.js';
import type { ExitRecord, FolderState } from './job-folders.js';
import {
  chosenJobId,
  jobOf,
  lacksExit,
  superfluousJobs,
  VISIBLE_MS,
  type AttemptFacts,
} from './job-status.js';
import type { SlurmJob } from './slurm-lines.js';

function job(state: string, fields: Partial<SlurmJob> = {}): SlurmJob {
  const resources = { cpus: 1, ramMb: 0, gpus: new Map<string, number>() };
  return { runId: 'r', attempt: 1, id: '7', state, ...resources, workerId: 'w', reason: '', ...fields };
}

function folder(fields: Partial<FolderState> = {}): FolderState {
  return {
    workerId: 'w',
    createdAtMs: 0,
    jobIds: ['7'],
    takenBy: null,
    hasStarted: false,
    startedAtMs: null,
    exit: null,
    ...fields,
  };
}

function record(fields: Partial<ExitRecord> = {}): ExitRecord {
  return {
    kind: 'exited',
    exitCode: 0,
    wasSignalled: false,
    endedAtMs: 0,
    logBytes: 0,
    message: '',
    ...fields,
  };
}

function facts(fields: Partial<AttemptFacts> = {}): AttemptFacts {
  const known = { folder: folder(), jobs: [], isListFresh: true, missingMs: 0 };
  return { runId: 'r', attempt: 1, ...known, ...fields };
}

function statusOf(fields: Partial<AttemptFacts>): JobStatus | undefined {
  return jobOf(facts(fields))?.status;
}

const RUNS = folder({ takenBy: '7', hasStarted: true });

describe('the status of a job', () => {
  test('is pending with the words of Slurm until the container starts, and tells when a node has it', () => {
    const placed = { kind: 'pending', isPlaced: true };
    const waiting = { jobs: [job('PENDING', { reason: 'Resources' })] };
    assert.deepEqual(statusOf(waiting), { kind: 'pending', reason: 'Resources' });
    assert.deepEqual(statusOf({ jobs: [job('CONFIGURING')] }), { ...placed, reason: 'Configuring' });
    const prepares = { folder: folder({ takenBy: '7' }), jobs: [job('RUNNING')] };
    assert.deepEqual(statusOf(prepares), { ...placed, reason: '' });
    assert.deepEqual(statusOf({ folder: RUNS, jobs: [job('RUNNING')] }), { kind: 'running' });
    assert.deepEqual(statusOf({ folder: RUNS, jobs: [job('COMPLETING')] }), { kind: 'running' });
  });

  test('is the failure that the job has written about its mounts, unless a signal came before', () => {
    for (const kind of ['error', 'infrastructure'] as const) {
      const exit = record({ kind, exitCode: 1, message: "The volume 'x' is missing" });
      const ended = folder({ takenBy: '7', exit });
      assert.deepEqual(statusOf({ folder: ended, jobs: [job('FAILED')] }), {
        kind: 'failed',
        cause: kind,
        message: "The volume 'x' is missing",
      });
    }
    const exit = record({ kind: 'error', wasSignalled: true });
    const status = statusOf({ folder: folder({ takenBy: '7', exit }), jobs: [job('CANCELLED')] });
    assert.ok(status?.kind === 'failed' && status.cause === 'infrastructure', JSON.stringify(status));
  });

  test('is the exit record, whatever the controller knows', () => {
    for (const exitCode of [0, 3, 255]) {
      const ended = folder({ takenBy: '7', hasStarted: true, exit: record({ exitCode }) });
      for (const jobs of [[], [job('RUNNING')], [job('FAILED')]])
        for (const isListFresh of [true, false])
          assert.deepEqual(statusOf({ folder: ended, jobs, isListFresh }), {
            kind: 'exited',
            exitCode,
            outOfMemory: false,
          });
    }
  });

  test('of a killed program waits for the state of its job, which says whether memory was the reason', () => {
    const killed = folder({ takenBy: '7', hasStarted: true, exit: record({ exitCode: 137 }) });
    assert.deepEqual(statusOf({ folder: killed, jobs: [job('COMPLETING')] }), { kind: 'running' });
    assert.deepEqual(statusOf({ folder: killed, jobs: [], isListFresh: false }), { kind: 'running' });
    const exited = { kind: 'exited', exitCode: 137 } as const;
    assert.deepEqual(statusOf({ folder: killed, jobs: [job('FAILED')] }), { ...exited, outOfMemory: false });
    assert.deepEqual(statusOf({ folder: killed, jobs: [job('OUT_OF_MEMORY')] }), {
      ...exited,
      outOfMemory: true,
    });
    assert.deepEqual(statusOf({ folder: killed }), { ...exited, outOfMemory: false });
    assert.deepEqual(statusOf({ folder: RUNS, jobs: [job('OUT_OF_MEMORY')] }), {
      ...exited,
      outOfMemory: true,
    });
  });

  const OURS = [
    'BOOT_FAIL',
    'CANCELLED',
    'DEADLINE',
    'LAUNCH_FAILED',
    'NODE_FAIL',
    'PREEMPTED',
    'RECONFIG_FAIL',
    'REVOKED',
    'TIMEOUT',
  ] as const;
  for (const state of OURS) {
    const cause = state === 'TIMEOUT' ? 'error' : 'infrastructure';
    test(`of a job that Slurm ended with ${state} has the cause ${cause}, also if the program ended at the signal`, () => {
      for (const exit of [
        null,
        record({ exitCode: 0, wasSignalled: true }),
        record({ exitCode: 143, wasSignalled: true }),
      ]) {
        const status = statusOf({ folder: { ...RUNS, exit }, jobs: [job(state)] });
        assert.ok(status?.kind === 'failed' && status.cause === cause, JSON.stringify(status));
        assert.match(status.message, new RegExp(state));
      }
    });
  }

  test('of a program that ended at a signal from outside is a loss, whatever its exit code', () => {
    for (const exitCode of [0, 1, 143])
      for (const jobs of [[], [job('COMPLETED')], [job('FAILED')]]) {
        const exit = record({ exitCode, wasSignalled: true });
        const status = statusOf({ folder: { ...RUNS, exit }, jobs });
        assert.ok(status?.kind === 'failed' && status.cause === 'infrastructure', JSON.stringify(status));
      }
  });

  test('of a job without an exit record is a loss only after a network file system had time to show it', () => {
    for (const jobs of [[], [job('FAILED')], [job('COMPLETED')]]) {
      assert.ok(lacksExit(facts({ folder: RUNS, jobs })));
      assert.deepEqual(statusOf({ folder: RUNS, jobs, missingMs: VISIBLE_MS - 1 }), { kind: 'running' });
      const late = statusOf({ folder: RUNS, jobs, missingMs: VISIBLE_MS });
      assert.ok(late?.kind === 'failed' && late.cause === 'infrastructure', JSON.stringify(late));
    }
  });

  test('does not change while the controller is unavailable', () => {
    assert.equal(lacksExit(facts({ folder: RUNS, isListFresh: false })), false);
    assert.deepEqual(statusOf({ folder: RUNS, isListFresh: false, missingMs: VISIBLE_MS }), {
      kind: 'running',
    });
  });

  test('says that nodes may not see the folder when a job ends without touching it', () => {
    const status = statusOf({ jobs: [job('FAILED')], missingMs: VISIBLE_MS });
    assert.ok(status?.kind === 'failed' && status.cause === 'infrastructure');
    assert.match(status.message, /do the nodes see SERVICE_WORKER_SLURM_DIR\?/);
  });

  test('of an image that could not be had has the cause image', () => {
    const exit = record({ kind: 'image', exitCode: 1, message: 'manifest unknown' });
    const status = statusOf({ folder: folder({ takenBy: '7', exit }), jobs: [job('FAILED')] });
    assert.ok(status?.kind === 'failed' && status.cause === 'image');
    assert.match(status.message, /manifest unknown/);
  });
});

describe('an attempt with several jobs', () => {
  const both = [job('PENDING', { id: '10' }), job('PENDING', { id: '9' })];

  test('is the oldest one, and the others are superfluous while they wait', () => {
    assert.equal(chosenJobId(facts({ jobs: both })), '9');
    assert.deepEqual(
      superfluousJobs(facts({ jobs: both })).map(({ id }) => id),
      ['10'],
    );
  });

  test('is the one that has taken it', () => {
    const taken = facts({ jobs: both, folder: folder({ takenBy: '10' }) });
    assert.equal(chosenJobId(taken), '10');
    assert.deepEqual(
      superfluousJobs(taken).map(({ id }) => id),
      ['9'],
    );
  });

  test('is not listed without a folder once they have ended, nor before any was accepted', () => {
    assert.equal(jobOf(facts({ folder: null, jobs: [job('CANCELLED')] })), null);
    assert.equal(jobOf(facts({ folder: folder({ jobIds: [] }) })), null);
    assert.equal(jobOf(facts({ folder: null, jobs: [job('PENDING')] }))?.workerId, 'w');
  });
});

function timesOf(fields: Partial<FolderState>) {
  return jobOf(facts({ folder: folder({ takenBy: '7', ...fields }) }))?.times;
}

test('the times of a job are those that its script has written for the container', () => {
  const startedAtMs = Date.parse('2026-05-04T10:00:00.500Z');
  const runs = { hasStarted: true, startedAtMs };
  const startedAt = '2026-05-04T10:00:00.500Z';
  assert.equal(timesOf({}), undefined);
  assert.equal(timesOf({ hasStarted: true }), undefined, 'not visible yet');
  assert.deepEqual(timesOf(runs), { startedAt, finishedAt: null });
  const exit = record({ endedAtMs: startedAtMs + 1_000 });
  assert.deepEqual(timesOf({ ...runs, exit }), { startedAt, finishedAt: '2026-05-04T10:00:01.500Z' });
});
