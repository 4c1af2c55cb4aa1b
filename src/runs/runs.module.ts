import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditEntryEntity } from '../database/entities/security.entity.js';
import { FeedModule } from '../feed/feed.module.js';
import { HealthChecks } from '../health/health-checks.js';
import { HealthModule } from '../health/health.module.js';
import { AuditController } from './audit/audit.controller.js';
import { AuditRetentionJob } from './audit/audit-retention.job.js';
import { BulkOperationsController } from './bulk/bulk-operations.controller.js';
import { BulkOperationsJob } from './bulk/bulk-operations.job.js';
import { BulkOperationRepository } from './bulk/bulk-operations.repository.js';
import { BulkOperationsService } from './bulk/bulk-operations.service.js';
import { BulkRunsController } from './bulk/bulk-runs.controller.js';
import { BulkRunsService } from './bulk/bulk-runs.service.js';
import { PausesController } from './pauses/pauses.controller.js';
import { PausesJob } from './pauses/pauses.job.js';
import { PausesService } from './pauses/pauses.service.js';
import { RunTimeoutsJob } from './run-timeouts.job.js';
import { EventRepository } from './events/event.repository.js';
import { HeldRunRepository } from './storage/held-run.repository.js';
import { IdempotencyRetentionJob } from './idempotency/idempotency-retention.job.js';
import { IdempotencyRepository } from './idempotency/idempotency.repository.js';
import { RunRetention } from './run-retention.job.js';
import { RunCountsRepository } from './counts/run-counts.repository.js';
import { RunCountsRollUp } from './counts/run-counts.roll-up.js';
import { ConcurrencyKeys } from './queue/concurrency-keys.js';
import { LaneRepository } from './queue/lane.repository.js';
import { Lanes } from './queue/lanes.js';
import { LowWaterMarks } from './queue/low-water-marks.js';
import { Pauses } from './queue/pauses.js';
import { QueueCleanupJob } from './queue/queue-cleanup.job.js';
import { QueueRepository } from './queue/queue.repository.js';
import { ConcurrencySlots } from './queue/concurrency-slots.js';
import { JournalMetrics } from './journal/journal-metrics.js';
import { CommittedGroups } from './journal/committed-groups.js';
import { JournalTracing } from './journal/journal-tracing.js';
import { GroupCommitter, GroupTables } from './journal/commit-group.js';
import { RunJournal } from './journal/run-journal.js';
import { RunViews } from './storage/run-views.js';
import { BatchedRunReads } from './reading/batched-run-reads.js';
import { RunEtags } from './http/run-etags.js';
import { RunEvents } from './run-events.js';
import { RunListReader } from './reading/run-list.reader.js';
import { RunFiles } from './files/run-files.js';
import { RunReader } from './reading/run.reader.js';
import { RunRepository } from './storage/run.repository.js';
import { QueueReader } from './queue/queue.reader.js';
import { RunPolls } from './http/run-polls.js';
import { RunsController } from './http/runs.controller.js';
import { RunsService } from './runs.service.js';
import { RunCountsMetrics } from './counts/run-counts.metrics.js';

const EXPORTS = [
  RunJournal,
  CommittedGroups,
  GroupCommitter,
  GroupTables,
  QueueRepository,
  ConcurrencySlots,
  RunEvents,
  HeldRunRepository,
  IdempotencyRepository,
  RunCountsRepository,
  RunCountsMetrics,
  QueueReader,
  Pauses,
  Lanes,
  RunListReader,
  RunReader,
  RunRepository,
  RunFiles,
  RunsService,
  BulkRunsService,
  RunTimeoutsJob,
  RunRetention,
];

/** Runs: their state machine, the journal that every change goes through, and their HTTP. */
@Module({
  imports: [TypeOrmModule.forFeature([AuditEntryEntity]), FeedModule, HealthModule],
  // The routes of many runs first: `batch` is no run's id.
  controllers: [
    BulkRunsController,
    BulkOperationsController,
    RunsController,
    PausesController,
    AuditController,
  ],
  providers: [
    ...EXPORTS,
    EventRepository,
    LowWaterMarks,
    LaneRepository,
    BulkOperationRepository,
    BulkOperationsService,
    BulkOperationsJob,
    AuditRetentionJob,
    ConcurrencyKeys,
    PausesService,
    PausesJob,
    QueueCleanupJob,
    IdempotencyRetentionJob,
    RunCountsRollUp,
    JournalMetrics,
    JournalTracing,
    RunViews,
    BatchedRunReads,
    RunEtags,
    RunPolls,
  ],
  exports: EXPORTS,
})
export class RunsModule {
  constructor(journal: RunJournal, checks: HealthChecks) {
    checks.register('journal', () => journal.state);
  }
}
