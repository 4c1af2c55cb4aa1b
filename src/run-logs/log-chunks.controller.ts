import { Body, Controller, Param, Put } from '@nestjs/common';
import { ApiBody, ApiHeader, ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../auth/access.js';
import { InvalidRequest } from '../common/http/errors/domain-error.js';
import { ApiErrors } from '../common/http/errors/error.dto.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import {
  BODY_EXAMPLES,
  EXAMPLE_WORKER_ID,
  namedExamples,
  RUN_ID_PARAM,
} from '../bootstrap/openapi/examples.js';
import type { Reporter } from '../runs/machine/run-command.js';
import { ReportedBy, RUN_ATTEMPT_HEADER, WORKER_ID_HEADER } from '../runs/http/request-headers.js';
import { LogChunkDto, LogPositionDto, toLogLine } from './dto/log-chunk.dto.js';
import { LAST_CHUNK } from './log-line.js';
import { LogWriter, type ChunkAddress } from './log-writer.js';

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
      'Chunks of an attempt are numbered from 0. A chunk that is stored already may be sent again and changes nothing; ' +
      'one that is not the next gets 409. A chunk that got 200 is stored, unless the size limit of the log removes it ' +
      'from the middle. A worker may send chunks of an attempt that has ended or was taken from it.',
  })
  @ApiParam(RUN_ID_PARAM)
  @ApiParam({
    name: 'chunk',
    description: 'Number of the chunk.',
    schema: { type: 'integer', minimum: 0, maximum: LAST_CHUNK, example: 0 },
  })
  @ApiHeader({
    name: WORKER_ID_HEADER,
    required: true,
    description: 'The worker that sends the chunk; 409 if the attempt was never assigned to it.',
    schema: { type: 'string', minLength: 1, maxLength: 128, example: EXAMPLE_WORKER_ID },
  })
  @ApiHeader({
    name: RUN_ATTEMPT_HEADER,
    required: true,
    description: 'The attempt of the log; 409 if the run has no such attempt.',
    schema: { type: 'integer', minimum: 1, maximum: 1000, example: 1 },
  })
  @ApiBody({ type: LogChunkDto, examples: namedExamples(BODY_EXAMPLES.putLogChunk) })
  @ApiOkResponse({ type: LogPositionDto, description: 'What the log expects next.' })
  @ApiErrors(400, 404, 409, 413, 415, 503)
  async put(
    @Param('id') id: string,
    @Param('chunk') chunk: string,
    @ReportedBy() reporter: Reporter,
    @Body() body: LogChunkDto,
  ): Promise<LogPositionDto> {
    const { nextChunk, end } = await this.writer.add(readChunkAddress(id, chunk, reporter), {
      firstLine: body.first_line,
      lines: body.lines.map(toLogLine),
      isLast: body.is_last ?? false,
      skippedBytes: body.skipped_bytes ?? null,
    });
    return { next_chunk: nextChunk, next_line: end.line };
  }
}

const CHUNK_NUMBER = /^(?:0|[1-9][0-9]{0,9})$/;

/** @throws InvalidRequest if the chunk is not a number, or a header is missing */
function readChunkAddress(runId: string, chunk: string, { workerId, attempt }: Reporter): ChunkAddress {
  const number = CHUNK_NUMBER.test(chunk) ? Number(chunk) : Infinity;
  const problems = [
    ...(number <= LAST_CHUNK ? [] : [`chunk must be an integer from 0 to ${LAST_CHUNK}`]),
    ...(workerId === undefined ? [`header ${WORKER_ID_HEADER} is required`] : []),
    ...(attempt === undefined ? [`header ${RUN_ATTEMPT_HEADER} is required`] : []),
  ];
  if (problems.length > 0 || workerId === undefined || attempt === undefined) {
    throw new InvalidRequest(VALIDATION_FAILED, problems);
  }
  return { runId, attempt, workerId, chunk: number };
}
