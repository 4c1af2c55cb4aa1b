import { Module } from '@nestjs/common';
import { FeedModule } from '../feed/feed.module.js';
import { AttemptRepository } from './attempt.repository.js';
import { AuditController } from './audit/audit.controller.js';
import { AuditRepository } from './audit/audit.repository.js';
import { EventRepository } from './event.repository.js';
import { IdempotencyRetentionJob } from './idempotency-retention.job.js';
import { IdempotencyRetentionSchedule } from './idempotency-retention.schedule.js';
import { IdempotencyRepository } from './idempotency.repository.js';
import { QueueRepository } from './queue.repository.js';
import { JournalMetrics } from './run-journal/journal-metrics.js';
import { JournalStore } from './run-journal/journal-store.js';
import { RunHistory } from './run-journal/run-history.js';
import { RunJournal } from './run-journal/run-journal.js';
import { RunListRepository } from './run-list/run-list.repository.js';
import { RunListService } from './run-list/run-list.service.js';
import { RunReader } from './run.reader.js';
import { RunRepository } from './run.repository.js';
import { RunsController } from './runs.controller.js';
import { RunsService } from './runs.service.js';

/** Runs: their state machine, the journal that every change goes through, and their HTTP. */
@Module({
  imports: [FeedModule],
  controllers: [RunsController, AuditController],
  providers: [
    RunRepository,
    AttemptRepository,
    EventRepository,
    QueueRepository,
    IdempotencyRepository,
    IdempotencyRetentionJob,
    IdempotencyRetentionSchedule,
    AuditRepository,
    RunListRepository,
    RunListService,
    RunHistory,
    JournalMetrics,
    JournalStore,
    RunJournal,
    RunReader,
    RunsService,
  ],
  exports: [RunJournal, RunsService],
})
export class RunsModule {}
