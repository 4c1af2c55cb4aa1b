import { Module } from '@nestjs/common';
import { LOG_LIMITS, USUAL_LOG_LIMITS } from './log-limits.js';
import { LogChunksController } from './log-chunks.controller.js';
import { LogLinesController } from './log-lines.controller.js';
import { LogMetrics } from './log-metrics.js';
import { LogReaders } from './log-readers.js';
import { LogService } from './log.service.js';
import { LogWriter } from './log-writer.js';

/** What containers printed: kept in chunks, read page by page or followed live. */
@Module({
  controllers: [LogChunksController, LogLinesController],
  providers: [
    { provide: LOG_LIMITS, useValue: USUAL_LOG_LIMITS },
    LogMetrics,
    LogReaders,
    LogService,
    LogWriter,
  ],
})
export class RunLogsModule {}
