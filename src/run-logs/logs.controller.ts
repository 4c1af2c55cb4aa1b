import { Body, Controller, Get, Headers, Injectable, Param, Put, Query, Req, Res } from '@nestjs/common';
import {
  ApiExtraModels,
  ApiHeader,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiParam,
  ApiTags,
  getSchemaPath,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { AllowBoundKeys, AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { RUN_ID_PARAM } from '../common/http/api-examples.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { ApiResource, ApiErrors } from '../common/http/errors/error.dto.js';
import { BoundedReaders } from '../common/http/server/bounded-readers.js';
import { HeldRequests } from '../common/http/server/held-requests.js';
import { Settings } from '../config/settings.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { AllowHolders } from '../runs/http/held-run.guard.js';
import { ApiFence, FencedBy, type Fence } from '../runs/http/request-headers.js';
import {
  LogChunkDto,
  LogPositionDto,
  toLogLine,
  LogGapDto,
  LogLineDto,
  LogPageQueryDto,
  LogStreamQueryDto,
} from './log.dto.js';
import { cursorsOf, toJsonLines, toPlainText } from './log-page.js';
import { LOG_LIMITS } from './log-limits.js';
import { LAST_CHUNK } from './log-line.js';
import { LogMetrics } from './log-metrics.js';
import { LogService } from './log.service.js';
import { LogWriter } from './log-writer.js';

const NDJSON = 'application/x-ndjson';
const PLAIN = 'text/plain';
const EVENT_STREAM = 'text/event-stream';

/** The schema of a text in which each line or event holds a log entry. */
function logText(contentMediaType: string): object {
  const contentSchema = { oneOf: [{ $ref: getSchemaPath(LogLineDto) }, { $ref: getSchemaPath(LogGapDto) }] };
  return { type: 'string', contentMediaType, contentSchema };
}

const LINES_EXAMPLE = `{"cursor":"AAEAAAAAAAEAAAAAAAAAAgAAAABnK1yQ","line":0,"t":"2026-01-02T03:04:05.678Z","stream":"stdout","text":"counting"}
{"cursor":"AAEAAAAAA-kAAAAAAAEAAgAAAABnK1yQ","line":1,"gap":{"lines":1000,"bytes":65536}}
`;

const STREAM_EXAMPLE = `id: AAEAAAAAAAEAAAAAAAAAAgAAAABnK1yQ
data: {"cursor":"AAEAAAAAAAEAAAAAAAAAAgAAAABnK1yQ","line":0,"t":"2026-01-02T03:04:05.678Z","stream":"stdout","text":"counting"}

id: AAEAAAAAAAEAAAAAAAAAAgAAAABnK1yQ
event: end
data: {"lines":1,"left_out":0}

`;

const COUNT = { type: 'integer', minimum: 0 };
const TEXT = { type: 'string' };
const BOOLEAN = { type: 'string', enum: ['true', 'false'] };

function header(description: string, schema: object) {
  return { required: true, description, schema };
}

/** The long polls and streams of logs. */
@Injectable()
export class LogReaders extends BoundedReaders {
  constructor(requests: HeldRequests, metrics: LogMetrics, settings: Settings) {
    super(requests, settings, 'logs', LOG_LIMITS, metrics);
  }
}

@ApiTags('logs')
@Controller('runs')
@ApiExtraModels(LogLineDto, LogGapDto)
export class LogsController {
  constructor(
    private readonly logs: LogService,
    private readonly writer: LogWriter,
    private readonly readers: LogReaders,
  ) {}

  /**
   * Add the next chunk to the log of an attempt
   * @remarks Chunks of an attempt are numbered from 0. A chunk that is stored already may be sent again and changes
   * nothing; one that is not the next gets 409. A chunk that got 200 is stored, unless the size limit of the log removes
   * it from the middle. A worker may send chunks of an attempt that has ended or was reclaimed.
   */
  @Put(':id/logs/:chunk')
  @AllowScopes('worker')
  @AllowBoundKeys()
  @ApiResource(RUN_ID_PARAM)
  @ApiParam({
    name: 'chunk',
    description: 'Number of the chunk.',
    schema: { type: 'integer', minimum: 0, maximum: LAST_CHUNK, example: 0 },
  })
  @ApiFence({
    worker: 'The worker that sends the chunk; 409 if the attempt was never assigned to it.',
    attempt: 'The attempt of the log; 409 if the run has no such attempt.',
  })
  @ApiOkResponse({ type: LogPositionDto, description: 'What the log expects next.' })
  @ApiErrors(409)
  async putLogChunk(
    @Param('id') id: string,
    @Param('chunk') chunk: string,
    @FencedBy() fence: Fence,
    @Body() body: LogChunkDto,
  ): Promise<LogPositionDto> {
    const { nextChunk, end, cursor } = await this.writer.add(
      { runId: id, ...fence, chunk: readChunkNumber(chunk) },
      {
        firstLine: body.first_line,
        lines: body.lines.map(toLogLine),
        isLast: body.is_last ?? false,
        skippedBytes: body.skipped_bytes ?? null,
        cursor: body.cursor ?? null,
      },
    );
    return { next_chunk: nextChunk, next_line: end.line, ...(cursor !== null && { cursor }) };
  }

  /**
   * Read a page of the log of an attempt
   * @remarks Lines in the order in which they were printed, as JSON objects, one a line: LogLine, or LogGap where lines
   * are missing. With `Accept: text/plain`, the text alone. To continue, send `X-Log-Next-Cursor` as `after`.
   */
  @Get(':id/logs')
  @TakesDatabaseTurn()
  @AllowScopes('client', 'worker')
  @AllowHolders()
  @ApiResource(RUN_ID_PARAM)
  @ApiOkResponse({
    description: 'The lines.',
    content: {
      [NDJSON]: { schema: logText(NDJSON), example: LINES_EXAMPLE },
      [PLAIN]: { schema: { type: 'string' }, example: 'counting\n[... 1000 lines left out ...]\n' },
    },
    headers: {
      'X-Log-Attempt': header('The attempt whose log it is.', { type: 'integer', minimum: 1 }),
      'X-Log-Next-Cursor': header('Continues the log after the page, even if the page is empty.', TEXT),
      'X-Log-Previous-Cursor': header('To read backwards, send it as `before`.', TEXT),
      'X-Log-Has-Previous': header('Whether the page starts after the first line.', BOOLEAN),
      'X-Log-Complete': header('Whether the log ends with this page.', BOOLEAN),
      'X-Log-Lines': {
        ...header(
          'Number of lines that were printed, each piece of a line counted; only where X-Log-Complete is true.',
          COUNT,
        ),
        required: false,
      },
      'X-Log-Lines-Left-Out': {
        ...header('Number of them that are not stored; only where X-Log-Complete is true.', COUNT),
        required: false,
      },
      'X-Log-Has-More': header('Whether more lines are stored.', BOOLEAN),
    },
  })
  async readRunLog(
    @Param('id') id: string,
    @Query() query: LogPageQueryDto,
    @CurrentCaller() caller: Caller,
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
  ): Promise<string> {
    const { wait = 0, ...choice } = query;
    const asked = { runId: id, callerId: caller.id, ...choice };
    const page =
      wait === 0
        ? await this.logs.getPage(asked)
        : await this.readers.hold(response, (signal) => this.logs.awaitPage(asked, wait * 1000, signal));
    const toCursor = cursorsOf(id, page.attempt);
    const isPlain = request.accepts([NDJSON, PLAIN]) === PLAIN;
    response.vary('Accept');
    response.setHeader('Content-Type', `${isPlain ? PLAIN : NDJSON}; charset=utf-8`);
    response.setHeader('X-Log-Attempt', page.attempt);
    response.setHeader('X-Log-Next-Cursor', toCursor(page.end));
    response.setHeader('X-Log-Previous-Cursor', toCursor(page.start));
    response.setHeader('X-Log-Has-Previous', String(page.start.line > 0));
    response.setHeader('X-Log-Complete', String(page.isComplete));
    response.setHeader('X-Log-Has-More', String(page.hasMore));
    if (page.lines !== null) {
      response.setHeader('X-Log-Lines', page.lines.printed);
      response.setHeader('X-Log-Lines-Left-Out', page.lines.leftOut);
    }
    return isPlain ? toPlainText(page) : toJsonLines(page);
  }

  /**
   * Follow the log of an attempt as Server-Sent Events
   * @remarks Sends what is after the cursor and then every new line. `data` is a LogLine or a LogGap in JSON, `id` its
   * cursor; they have no name. A comment comes every 15 seconds. Behind the last line of a complete log comes an event
   * with the name `end`, whose data has `lines` (printed) and `left_out` (not stored), which count each piece of a line,
   * and the stream closes. It may also close without (when the service stops, when its reader is too slow, when the run is
   * removed): resume with the last id. A request whose `Last-Event-ID` is the end of a complete log gets 204, at which an
   * EventSource stops.
   */
  @Get(':id/logs/stream')
  @TakesDatabaseTurn()
  @AllowScopes('client', 'worker')
  @AllowHolders()
  @ApiResource(RUN_ID_PARAM)
  @ApiHeader({
    name: 'Last-Event-ID',
    required: false,
    description: 'The last id that was received; takes precedence over `after`.',
    schema: { type: 'string' },
  })
  @ApiOkResponse({
    description: 'The stream.',
    content: { [EVENT_STREAM]: { schema: logText(EVENT_STREAM), example: STREAM_EXAMPLE } },
  })
  @ApiNoContentResponse({ description: 'The client has the whole log.' })
  async streamRunLog(
    @Param('id') id: string,
    @Query() query: LogStreamQueryDto,
    @CurrentCaller() caller: Caller,
    @Headers('last-event-id') lastEventId: string | undefined,
    @Req() request: Request,
    @Res() response: Response,
  ): Promise<void> {
    const isResumed = Boolean(lastEventId);
    const asked = { ...query, runId: id, callerId: caller.id, after: lastEventId || query.after, isResumed };
    await this.readers.stream(response, async (stream, signal) => {
      if (request.method !== 'HEAD') return this.logs.stream(asked, stream, signal);
      await this.logs.getPage({ ...asked, limit: 1 });
      stream.begin();
    });
  }
}

const CHUNK_NUMBER = /^(?:0|[1-9][0-9]{0,9})$/;

/** @throws InvalidRequest if the chunk is not a number */
function readChunkNumber(chunk: string): number {
  const number = CHUNK_NUMBER.test(chunk) ? Number(chunk) : Infinity;
  if (number <= LAST_CHUNK) return number;
  throw new InvalidRequest(VALIDATION_FAILED, [`chunk must be an integer from 0 to ${LAST_CHUNK}`]);
}
