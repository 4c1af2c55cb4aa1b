import { Body, Controller, Param, Put } from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../auth/access.js';
import { ApiErrors } from '../http/error.dto.js';
import type { Reporter } from '../runs/run-machine/run-command.js';
import { ReportedBy, RUN_ATTEMPT_HEADER, WORKER_ID_HEADER } from '../runs/reporter.js';
import { LogChunkDto, LogPositionDto, toLogLine } from './dto/log-chunk.dto.js';
import { readChunkAddress } from './chunk-address.js';
import { LogWriter } from './log-writer.js';
import { LAST_CHUNK } from './log-shapes.js';

/** HTTP by which workers send logs. */
@ApiTags('logs')
@Controller('runs')
export class LogChunksController {
  constructor(private readonly writer: LogWriter) {}

  @Put(':id/logs/:chunk')
  @AllowScopes('worker')
  @ApiOperation({
    operationId: 'putLogChunk',
    summary: 'Add the next chunk to the log of an attempt',
    description:
      'Chunks count up by one from 0 for each attempt. One that is stored already changes nothing, so a chunk may be ' +
      'sent again; one that is not the next is answered with 409. What was answered with 200 is kept, unless the ' +
      'limit of the log takes it out of the middle. The log of an attempt that has ended, or was taken from its ' +
      'worker, still takes what that worker sends.',
  })
  @ApiParam({ name: 'id', description: 'Id of the run', format: 'uuid' })
  @ApiParam({
    name: 'chunk',
    description: 'Number of the chunk',
    schema: { type: 'integer', minimum: 0, maximum: LAST_CHUNK },
  })
  @ApiHeader({
    name: WORKER_ID_HEADER,
    required: true,
    description: 'The worker that sends it; 409 when the attempt was never in its hands.',
    schema: { type: 'string', minLength: 1, maxLength: 128 },
  })
  @ApiHeader({
    name: RUN_ATTEMPT_HEADER,
    required: true,
    description: 'The attempt whose log it is; 409 when the run has no such attempt.',
    schema: { type: 'integer', minimum: 1, maximum: 1000 },
  })
  @ApiOkResponse({ type: LogPositionDto })
  @ApiErrors(400, 404, 409, 413, 415, 503)
  async put(
    @Param('id') id: string,
    @Param('chunk') chunk: string,
    @ReportedBy() reporter: Reporter,
    @Body() body: LogChunkDto,
  ): Promise<LogPositionDto> {
    const { nextChunk, nextLine } = await this.writer.add(readChunkAddress(id, chunk, reporter), {
      firstLine: body.first_line,
      lines: body.lines.map(toLogLine),
      isLast: body.is_last ?? false,
      skippedBytes: body.skipped_bytes ?? null,
    });
    return { next_chunk: nextChunk, next_line: nextLine };
  }
}
