import { Module } from '@nestjs/common';
import { RunsModule } from '../runs/runs.module.js';
import { WorkersModule } from '../workers/workers.module.js';
import { LogCompleteness } from './log-completeness.js';
import { LogMetrics } from './log-metrics.js';
import { LogReader, LogSearches } from './log-reader.js';
import { LogRemovalJob } from './log-removal.job.js';
import { LogRowRepository } from './log-row.repository.js';
import { LogService } from './log.service.js';
import { LogReaders, LogsController } from './logs.controller.js';
import { LogWriter } from './log-writer.js';
import { RunLogRepository } from './run-log.repository.js';

/** Logs of attempts: stored in compressed rows within a size limit, read in pages or followed as a stream. */
@Module({
  imports: [RunsModule, WorkersModule],
  controllers: [LogsController],
  providers: [
    RunLogRepository,
    LogRowRepository,
    LogCompleteness,
    LogMetrics,
    LogWriter,
    LogSearches,
    LogReader,
    LogReaders,
    LogService,
    LogRemovalJob,
  ],
})
export class RunLogsModule {}
