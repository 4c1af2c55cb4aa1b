import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { v7 as uuidv7 } from 'uuid';
import { FeedMirror } from '../../src/feed/feed-mirror.js';
import { FeedRepository } from '../../src/feed/feed.repository.js';
import { AttemptRepository } from '../../src/runs/attempt.repository.js';
import { AuditRepository } from '../../src/runs/audit/audit.repository.js';
import { EventRepository } from '../../src/runs/event.repository.js';
import { IdempotencyRepository } from '../../src/runs/idempotency.repository.js';
import { QueueRepository } from '../../src/runs/queue.repository.js';
import { JournalMetrics } from '../../src/runs/run-journal/journal-metrics.js';
import { JournalStore } from '../../src/runs/run-journal/journal-store.js';
import { RunHistory } from '../../src/runs/run-journal/run-history.js';
import { RunJournal, type Claim } from '../../src/runs/run-journal/run-journal.js';
import type { RunCommand } from '../../src/runs/run-machine/decide.js';
import type { NewRun, Run } from '../../src/runs/run-machine/run.js';
import { readEvent, type ReportedEvent } from '../../src/runs/run-machine/run-event.js';
import { RunRepository } from '../../src/runs/run.repository.js';
import { DirectStrategy } from '../../src/workers/strategies/direct.strategy.js';

/** A journal as one server process has it. */
export function journalOn(dataSource: DataSource): { journal: RunJournal; registry: Registry } {
  const registry = new Registry();
  const history = new RunHistory(
    new AttemptRepository(),
    new AuditRepository(),
    new EventRepository(),
    new FeedMirror(new FeedRepository(), { feedEnabled: true }),
  );
  const store = new JournalStore(
    new RunRepository(),
    new QueueRepository(),
    history,
    new IdempotencyRepository(),
  );
  return { journal: new RunJournal(dataSource, store, new JournalMetrics(registry)), registry };
}

/** A run to be created, with defaults where nothing is given. */
export function freshRun(given: Partial<NewRun> = {}): NewRun {
  return {
    id: uuidv7(),
    attemptId: uuidv7(),
    image: 'image',
    priority: 0,
    inputs: {},
    outputsTemplate: {},
    ramMb: 0,
    vramMb: 0,
    cpu: 0,
    maxAttempts: 1,
    eventDelivery: null,
    definition: null,
    ...given,
  };
}

/** A claim of a worker by the direct strategy. */
export function claimOf(workerId: string): Claim {
  return {
    worker: { id: workerId, cpuCores: 1, ramMb: 1024, gpus: [], tags: [] },
    strategy: new DirectStrategy(),
    stillWanted: () => true,
  };
}

/** A reported event as a command. @throws Error when it breaks a rule of its type */
export function eventCommand(reported: ReportedEvent): RunCommand {
  const event = readEvent(reported);
  if ('problems' in event) throw new Error(event.problems.join());
  return { type: 'event', event, reporter: {}, nextAttemptId: uuidv7() };
}

/** Creates a run and answers it. */
export async function createOn(journal: RunJournal, given: Partial<NewRun> = {}): Promise<Run> {
  const creation = await journal.create(freshRun(given));
  if ('run' in creation) return creation.run;
  throw new Error('a creation without a key was answered as a replay');
}
