import { Module } from '@nestjs/common';
import { FeedModule } from '../feed/feed.module.js';
import { AttemptRepository } from './attempt.repository.js';
import { EventRepository } from './event.repository.js';
import { QueueRepository } from './queue.repository.js';
import { JournalMetrics } from './run-journal/journal-metrics.js';
import { JournalStore } from './run-journal/journal-store.js';
import { RunJournal } from './run-journal/run-journal.js';
import { RunReader } from './run.reader.js';
import { RunRepository } from './run.repository.js';
import { RunsController } from './runs.controller.js';
import { RunsService } from './runs.service.js';

/** Runs: their state machine, the journal that every change goes through, and their HTTP. */
@Module({
  imports: [FeedModule],
  controllers: [RunsController],
  providers: [
    RunRepository,
    AttemptRepository,
    EventRepository,
    QueueRepository,
    JournalMetrics,
    JournalStore,
    RunJournal,
    RunReader,
    RunsService,
  ],
  exports: [RunJournal, RunsService],
})
export class RunsModule {}
