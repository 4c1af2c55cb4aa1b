import { Module } from '@nestjs/common';
import { ClosedLogsWatch } from './closed-logs.watch.js';
import { LOG_LIMITS, USUAL_LOG_LIMITS } from './log-limits.js';
import { LogChunksController } from './log-chunks.controller.js';
import { LogLinesController } from './log-lines.controller.js';
import { LogMetrics } from './log-metrics.js';
import { LogNotifications } from './log-notifications.js';
import { LogReader } from './log-reader.js';
import { LogReaders } from './log-readers.js';
import { LogRemovalJob } from './log-removal.job.js';
import { LogRemovalRepository } from './log-removal.repository.js';
import { LogRowRepository } from './log-row.repository.js';
import { LogService } from './log.service.js';
import { LogWriter } from './log-writer.js';
import { RunLogRepository } from './run-log.repository.js';

/** What containers printed: kept in compressed rows within a limit, read page by page or followed live. */
@Module({
  controllers: [LogChunksController, LogLinesController],
  providers: [
    { provide: LOG_LIMITS, useValue: USUAL_LOG_LIMITS },
    RunLogRepository,
    LogRowRepository,
    LogMetrics,
    LogWriter,
    LogNotifications,
    ClosedLogsWatch,
    LogReader,
    LogReaders,
    LogService,
    LogRemovalRepository,
    LogRemovalJob,
  ],
})
export class RunLogsModule {}
