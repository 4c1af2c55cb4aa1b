import { Module } from '@nestjs/common';
import { Notifications } from '../database/notifications.js';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditEntryEntity } from '../database/entities/audit-entry.entity.js';
import { FeedModule } from '../feed/feed.module.js';
import { HealthChecks } from '../health/health-checks.js';
import { HealthModule } from '../health/health.module.js';
import { AuditController } from './audit/audit.controller.js';
import { BulkRunsController } from './bulk/bulk-runs.controller.js';
import { BulkRunsService } from './bulk/bulk-runs.service.js';
import { CommittedEventRepository } from './events/committed-event.repository.js';
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
import { JournalMetrics } from './journal/journal-metrics.js';
import { JournalInstrumentation } from './journal/journal-instrumentation.js';
import { ClaimReplays } from './journal/claim-replays.js';
import { CandidateSelector } from './journal/candidate-selector.js';
import { ClaimAllocator } from './journal/claim-allocator.js';
import { GroupWriter } from './journal/group-writer.js';
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
    RunTimeoutsJob,
    RunListReader,
    RunCountsRepository,
    RunCountsRollUp,
    RunDemandRepository,
    RunDemandReader,
    RunDemandRollUp,
    RunRetentionRepository,
    RunRetention,
    JournalMetrics,
    GroupWriter,
    JournalInstrumentation,
    CandidateSelector,
    ClaimReplays,
    ClaimAllocator,
    RunViews,
    RunJournal,
    RunEvents,
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
export class RunsModule {
  constructor(journal: RunJournal, checks: HealthChecks) {
    checks.register('journal', () => journal.state);
  }
}
