import { Module } from '@nestjs/common';
import { Notifications } from '../database/notifications.js';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditEntryEntity } from '../database/entities/audit-entry.entity.js';
import { FeedModule } from '../feed/feed.module.js';
import { HealthModule } from '../health/health.module.js';
import { AttemptRepository } from './storage/attempt.repository.js';
import { AuditController } from './audit/audit.controller.js';
import { AuditRepository } from './audit/audit.repository.js';
import { BulkRunsController } from './bulk/bulk-runs.controller.js';
import { BulkRunsService } from './bulk/bulk-runs.service.js';
import { CommittedEventRepository } from './events/committed-event.repository.js';
import { DeadlineJob } from './timeouts/deadline.job.js';
import { DeadlineRepository } from './timeouts/deadline.repository.js';
import { RunTimeoutsJob } from './timeouts/run-timeouts.job.js';
import { EventRepository } from './events/event.repository.js';
import { HeldRunRepository } from './storage/held-run.repository.js';
import { IdempotencyRetentionJob } from './idempotency/idempotency-retention.job.js';
import { IdempotencyRepository } from './idempotency/idempotency.repository.js';
import { LostRunRepository } from './storage/lost-run.repository.js';
import { RunRetention } from './retention/run-retention.js';
import { RunRetentionRepository } from './retention/run-retention.repository.js';
import { RunCountsRepository } from './counts/run-counts.repository.js';
import { RunCountsRollUp } from './counts/run-counts.roll-up.js';
import { RunDemandRepository } from './counts/run-demand.repository.js';
import { RunDemandReader } from './counts/run-demand.reader.js';
import { RunDemandRollUp } from './counts/run-demand.roll-up.js';
import { LowWaterMarks } from './queue/low-water-marks.js';
import { QueueRepository } from './queue/queue.repository.js';
import { JournalHealth } from './journal/journal-health.js';
import { JournalMetrics } from './journal/journal-metrics.js';
import { JournalStore } from './journal/journal-store.js';
import { JournalTracer } from './journal/journal-tracer.js';
import { JournalInstrumentation } from './journal/journal-instrumentation.js';
import { RunHistory } from './journal/run-history.js';
import { ClaimReplays } from './journal/claim-replays.js';
import { CandidateSelector } from './journal/candidate-selector.js';
import { ClaimAllocator } from './journal/claim-allocator.js';
import { RunJournal } from './journal/run-journal.js';
import { RunViews } from './http/run-view.js';
import { RunEvents } from './events/run-events.js';
import { RunListReader } from './list/run-list.reader.js';
import { RunReader } from './storage/run.reader.js';
import { RunRepository } from './storage/run.repository.js';
import { QueueReader } from './queue/queue.reader.js';
import { RunsController } from './http/runs.controller.js';
import { RunsService } from './runs.service.js';
import { RunCountsMetrics } from './counts/run-counts.metrics.js';

/** Runs: their state machine, the journal that every change goes through, and their HTTP. */
@Module({
  imports: [TypeOrmModule.forFeature([AuditEntryEntity]), FeedModule, HealthModule],
  // The routes of many runs first: `batch` is no run's id.
  controllers: [BulkRunsController, RunsController, AuditController],
  providers: [
    RunRepository,
    LostRunRepository,
    AttemptRepository,
    EventRepository,
    CommittedEventRepository,
    {
      provide: LowWaterMarks,
      inject: [Notifications],
      useFactory: (notifications: Notifications) => new LowWaterMarks(notifications),
    },
    QueueRepository,
    HeldRunRepository,
    IdempotencyRepository,
    IdempotencyRetentionJob,
    DeadlineRepository,
    DeadlineJob,
    RunTimeoutsJob,
    AuditRepository,
    RunListReader,
    RunCountsRepository,
    RunCountsRollUp,
    RunDemandRepository,
    RunDemandReader,
    RunDemandRollUp,
    RunRetentionRepository,
    RunRetention,
    RunHistory,
    JournalMetrics,
    JournalStore,
    JournalTracer,
    JournalInstrumentation,
    CandidateSelector,
    ClaimReplays,
    ClaimAllocator,
    RunViews,
    RunJournal,
    RunEvents,
    JournalHealth,
    RunReader,
    QueueReader,
    RunsService,
    RunCountsMetrics,
    BulkRunsService,
  ],
  exports: [
    RunJournal,
    RunEvents,
    LostRunRepository,
    HeldRunRepository,
    RunCountsRepository,
    RunDemandReader,
    QueueReader,
    RunReader,
    RunsService,
    BulkRunsService,
  ],
})
export class RunsModule {}
