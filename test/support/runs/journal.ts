import { Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { v7 as uuidv7 } from 'uuid';
import { Refusals } from '../../../src/common/quotas/quota.js';
import type { Settings } from '../../../src/config/settings.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { JournalDataSource } from '../../../src/database/failover/reserved-connection.js';
import { FeedTails } from '../../../src/feed/cache/feed-tails.js';
import { cursorsOf } from '../../../src/feed/feed-cursors.js';
import { DEFAULT_FEED_LIMITS } from '../../../src/feed/feed-limits.js';
import { FeedMetrics } from '../../../src/feed/feed-metrics.js';
import { FeedRepository } from '../../../src/feed/feed.repository.js';
import { EventRepository } from '../../../src/runs/events/event.repository.js';
import { HeldRunRepository } from '../../../src/runs/storage/held-run.repository.js';
import { IdempotencyRepository } from '../../../src/runs/idempotency/idempotency.repository.js';
import { ConcurrencyKeys } from '../../../src/runs/queue/concurrency-keys.js';
import { LaneRepository } from '../../../src/runs/queue/lane.repository.js';
import { Lanes } from '../../../src/runs/queue/lanes.js';
import { LowWaterMarks } from '../../../src/runs/queue/low-water-marks.js';
import { QueueRepository } from '../../../src/runs/queue/queue.repository.js';
import type { Claim, ClaimedRun } from '../../../src/runs/journal/command.js';
import { CandidateSelector } from '../../../src/claims/candidate-selector.js';
import { ClaimAllocator } from '../../../src/claims/claim-allocator.js';
import { JournalMetrics } from '../../../src/runs/journal/journal-metrics.js';
import { CommittedGroups } from '../../../src/runs/journal/committed-groups.js';
import { JournalTracing } from '../../../src/runs/journal/journal-tracing.js';
import { GroupCommitter, GroupTables } from '../../../src/runs/journal/commit-group.js';
import { RunJournal, type JournalSettings } from '../../../src/runs/journal/run-journal.js';
import { NEW_RUN } from '../../../src/runs/machine/decide.fixtures.js';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import type { NewRun, Run } from '../../../src/runs/machine/run.js';
import { readEvent, type ReportedEvent } from '../../../src/runs/machine/run-event.js';
import { Pauses } from '../../../src/runs/queue/pauses.js';
import { RunFiles } from '../../../src/runs/files/run-files.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { RunViews } from '../../../src/runs/storage/run-views.js';
import type { ClaimingWorker, SchedulingStrategy } from '../../../src/runs/scheduling-strategy.js';
import type { WorkerPool } from '../../../src/workers/pool/worker-pool.js';
import type { TestDatabase } from '../test-database.js';
import { DirectStrategy } from '../../../src/claims/strategies/direct.strategy.js';

/** What a process knows of pauses that never hears of any. */
export const NO_PAUSES = new Pauses(new ConcurrencyKeys(), new DataSource({ type: 'postgres' }));

/** The SQL of the queue. */
export function queueWith(marks = new LowWaterMarks(), lanes = new Lanes()): QueueRepository {
  return new QueueRepository(marks, new LaneRepository(), lanes, new ConcurrencyKeys(), NO_PAUSES);
}

type FindWorkers = (
  ids: readonly string[],
) => ReadonlyMap<string, ClaimingWorker> | Promise<ReadonlyMap<string, ClaimingWorker>>;

/** A pool of active workers. */
export function poolOf(find: FindWorkers): Pick<WorkerPool, 'findAll'> {
  const pooled = {
    engine: null,
    containerEngine: null,
    notClaiming: [],
    unable: [],
    runningOps: [],
    createdAt: new Date(),
    lastHeartbeatAt: new Date(),
    isActive: true,
    isDraining: false,
    awayUntil: null,
  };
  return {
    findAll: async (ids) =>
      new Map([...(await find(ids))].map(([id, worker]) => [id, { ...pooled, ...worker }])),
  };
}

/** A pool in which every worker has these resources. */
export function poolOfAny(has: Partial<ClaimingWorker> = {}): Pick<WorkerPool, 'findAll'> {
  const worker = { cpuCores: 1, ramMb: 1024, gpus: [], tags: [], capabilities: [], ...has };
  return poolOf((ids) => new Map(ids.map((id) => [id, { ...worker, id }])));
}

/** Who claims, and by which strategy. */
interface Claiming {
  readonly strategy?: SchedulingStrategy;
  readonly pool?: Pick<WorkerPool, 'findAll'>;
}

/** A journal as one server process has it. Unless given, the direct strategy serves the claims of any worker. */
export function journalOn(
  dataSource: DataSource,
  given: Partial<JournalSettings & Pick<Settings, 'maxAnswerBytes'>> & Claiming = {},
  lanes = new Lanes(),
  marks = new LowWaterMarks(),
): { journal: RunJournal; registry: Registry } {
  const { strategy = new DirectStrategy(), pool = poolOfAny() } = given;
  const settings = { ...loadSettings([], {}), ...given };
  const registry = new Registry();
  const runs = new RunRepository();
  const queue = queueWith(marks, lanes);
  const events = new EventRepository();
  const idempotency = new IdempotencyRepository();
  const tables = new GroupTables(runs, events, queue, idempotency, new FeedRepository({ feedEnabled: true }));
  const selector = new CandidateSelector(queue, lanes, pool, strategy);
  const allocator = new ClaimAllocator(tables, new HeldRunRepository(), selector, pool, strategy, settings);
  const groups = new CommittedGroups();
  const files = new RunFiles();
  const views = new RunViews(runs, events, settings);
  const cursors = { epoch: null, of: (topic: string) => cursorsOf(topic, null) };
  const feeds = new FeedTails(cursors, new FeedMetrics(registry), DEFAULT_FEED_LIMITS);
  const committer = new GroupCommitter(settings, tables, views, feeds, files, groups);
  committer.serveClaimsBy(allocator);
  const metrics = new JournalMetrics(registry, groups);
  return {
    journal: new RunJournal(
      { dataSource },
      committer,
      groups,
      new JournalTracing(null),
      metrics,
      settings,
      new Refusals(registry),
      files,
    ),
    registry,
  };
}

/** The connections of the journal of one more process. By the settings of their sessions, groups lock rows in one order. */
export function openJournal(database: TestDatabase): Promise<DataSource> {
  return new JournalDataSource(database.dataSource).open();
}

/** A run to be created, with defaults where nothing is given. */
export function freshRun(given: Partial<NewRun> = {}): NewRun {
  return {
    ...NEW_RUN,
    id: uuidv7(),
    attemptId: uuidv7(),
    maxAttempts: 1,
    topic: null,
    ...given,
  };
}

/** A claim of a worker whose client stays. */
export function claimOf(workerId: string): Claim {
  return { workerId, signal: new AbortController().signal };
}

/** Claims for a worker, and answers what it got. */
export async function claimOn(journal: RunJournal, workerId: string): Promise<readonly ClaimedRun[]> {
  return (await journal.claim(claimOf(workerId))).runs;
}

/** Carries out a command and answers the run that it made. */
export async function changeOn(journal: RunJournal, runId: string, command: RunCommand): Promise<Run> {
  const effect = await journal.change(runId, command);
  if ('run' in effect) return effect.run;
  throw new Error('a command without a key was answered as a replay');
}

/** A reported event as a command. @throws Error when it breaks a rule of its type */
export function eventCommand(reported: ReportedEvent): RunCommand {
  const event = readEvent(reported);
  if ('problems' in event) throw new Error(event.problems.join());
  return { type: 'event', event, reporter: {} };
}

/** Creates a run and answers it. */
export async function createOn(journal: RunJournal, given: Partial<NewRun> = {}): Promise<Run> {
  const creation = await journal.create(freshRun(given));
  if ('run' in creation) return creation.run;
  throw new Error('a creation without a key was answered as a replay');
}
