import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditEntryEntity } from '../database/entities/audit-entry.entity.js';
import { FeedModule } from '../feed/feed.module.js';
import { HealthModule } from '../health/health.module.js';
import { AttemptRepository } from './attempt.repository.js';
import { AuditController } from './audit/audit.controller.js';
import { AuditRepository } from './audit/audit.repository.js';
import { ItemErrors } from '../http/item-errors.js';
import { BulkRunsController } from './bulk/bulk-runs.controller.js';
import { BulkRunsService } from './bulk/bulk-runs.service.js';
import { CommittedEventRepository } from './committed-event.repository.js';
import { DeadlineJob } from './deadlines/deadline.job.js';
import { DeadlineRepository } from './deadlines/deadline.repository.js';
import { RunTimeoutsJob } from './deadlines/run-timeouts.job.js';
import { EventRepository } from './event.repository.js';
import { HeldRunRepository } from './held-run.repository.js';
import { IdempotencyRetentionJob } from './idempotency-retention.job.js';
import { IdempotencyRepository } from './idempotency.repository.js';
import { LostRunRepository } from './lost-run.repository.js';
import { RunRetention } from './retention/run-retention.js';
import { RunRetentionRepository } from './retention/run-retention.repository.js';
import { RunCountsRepository } from './run-counts/run-counts.repository.js';
import { RunCountsRollUp } from './run-counts/run-counts.roll-up.js';
import { RunDemandRepository } from './run-demand/run-demand.repository.js';
import { RunDemandReader } from './run-demand/run-demand.reader.js';
import { RunDemandRollUp } from './run-demand/run-demand.roll-up.js';
import { OldestPendingRepository } from './oldest-pending.repository.js';
import { QueueMarks } from './queue-marks.js';
import { QueueMarksKeeper } from './queue-marks.keeper.js';
import { QueueRepository } from './queue.repository.js';
import { JournalHealth } from './run-journal/journal-health.js';
import { JournalMetrics } from './run-journal/journal-metrics.js';
import { JournalStore } from './run-journal/journal-store.js';
import { JournalTracer } from './run-journal/journal-tracer.js';
import { JournalWatch } from './run-journal/journal-watch.js';
import { RunHistory } from './run-journal/run-history.js';
import { ClaimReplays } from './run-journal/claim-replays.js';
import { RunChoice } from './run-journal/run-choice.js';
import { HandOut } from './run-journal/hand-out.js';
import { RunJournal } from './run-journal/run-journal.js';
import { RunViews } from './run-view.js';
import { QueueStandingRepository } from './queue-standing.repository.js';
import { RunEvents } from './run-events.js';
import { RunListRepository } from './run-list/run-list.repository.js';
import { RunListService } from './run-list/run-list.service.js';
import { RunReader } from './run.reader.js';
import { RunRepository } from './run.repository.js';
import { RunStandingReader } from './run-standing.reader.js';
import { RunsController } from './runs.controller.js';
import { RunsService } from './runs.service.js';
import { RunsStandingMetrics } from './runs-standing.metrics.js';

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
    { provide: QueueMarks, useFactory: () => new QueueMarks() },
    QueueMarksKeeper,
    QueueRepository,
    HeldRunRepository,
    QueueStandingRepository,
    IdempotencyRepository,
    IdempotencyRetentionJob,
    DeadlineRepository,
    DeadlineJob,
    RunTimeoutsJob,
    AuditRepository,
    RunListRepository,
    RunListService,
    RunCountsRepository,
    RunCountsRollUp,
    RunDemandRepository,
    RunDemandReader,
    RunDemandRollUp,
    RunRetentionRepository,
    RunRetention,
    OldestPendingRepository,
    RunHistory,
    JournalMetrics,
    JournalStore,
    JournalTracer,
    JournalWatch,
    RunChoice,
    ClaimReplays,
    HandOut,
    RunViews,
    RunJournal,
    RunEvents,
    JournalHealth,
    RunReader,
    RunStandingReader,
    RunsService,
    RunsStandingMetrics,
    ItemErrors,
    BulkRunsService,
  ],
  exports: [
    RunJournal,
    RunEvents,
    LostRunRepository,
    HeldRunRepository,
    RunCountsRepository,
    RunDemandReader,
    OldestPendingRepository,
    RunStandingReader,
    RunReader,
    RunsService,
    BulkRunsService,
  ],
})
export class RunsModule {}
