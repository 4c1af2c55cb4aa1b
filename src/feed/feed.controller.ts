import { Controller, Get, Headers, Inject, Injectable, Query, Req, Res } from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiTags, getSchemaPath } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { AllowScopes } from '../auth/access.js';
import { JSON_TYPE } from '../common/http/errors/error-response.js';
import { ApiErrors, ApiSwitchedOffError } from '../common/http/errors/error.dto.js';
import { BoundedReaders } from '../common/http/server/bounded-readers.js';
import { HeldRequests } from '../common/http/server/held-requests.js';
import { Settings } from '../config/settings.js';
import {
  FeedCursorDto,
  FeedEventDto,
  FeedPageDto,
  FeedCursorQueryDto,
  FeedPageQueryDto,
  FeedStreamQueryDto,
} from './feed.dto.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedNotConfigured } from './feed.errors.js';
import { FeedService } from './feed.service.js';

const DEFAULT_LIMIT = 100;

const STREAM_EXAMPLE = `id: AAAAAAAAAAEm6-5TRbw
data: {"cursor":"AAAAAAAAAAEm6-5TRbw","run_id":"019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b","attempt":1,"type":"STARTED",\
"msg":"","t":"2026-01-02T03:04:05.678Z","state":"RUNNING","payload":{"worker_id":"worker-1"}}

`;

const EVENT_STREAM = {
  type: 'string',
  contentMediaType: 'text/event-stream',
  contentSchema: { $ref: getSchemaPath(FeedEventDto) },
};

/** The long polls and streams of feeds. */
@Injectable()
export class FeedReaders extends BoundedReaders {
  constructor(
    requests: HeldRequests,
    @Inject(FEED_LIMITS) limits: FeedLimits,
    metrics: FeedMetrics,
    settings: Settings,
  ) {
    super(requests, settings, 'feeds', limits, metrics);
  }
}

@ApiTags('feed')
@Controller('feed')
export class FeedController {
  constructor(
    private readonly feed: FeedService,
    private readonly settings: Settings,
    private readonly readers: FeedReaders,
  ) {}

  /**
   * Read a page of the feed of a topic
   * @remarks Events of all runs with the topic, oldest first, in an order that is the same for every reader and never
   * changes. Continue with `next_cursor` as `after`; after an empty page, with the same `after`. If retention has removed
   * the events after a cursor, the response is 410, whose detail names the oldest valid cursor; if a restore from a backup
   * has lost them, 410 with the cursor to continue from.
   */
  @Get()
  @AllowScopes('client')
  @ApiOkResponse({ type: FeedPageDto, description: 'A page of events.' })
  @ApiErrors(410)
  @ApiSwitchedOffError('the feed')
  async readFeed(@Query() query: FeedPageQueryDto, @Res() response: Response): Promise<void> {
    this.#checkEnabled();
    const { limit = DEFAULT_LIMIT, wait = 0 } = query;
    const slice =
      wait === 0
        ? await this.feed.getPage(query, limit)
        : await this.readers.hold(response, (signal) =>
            this.feed.awaitPage(query, limit, wait * 1000, signal),
          );
    response.setHeader('Content-Type', JSON_TYPE);
    response.send(slice.page);
  }

  /**
   * Get a cursor near the end of the feed of a topic
   * @remarks For readers that begin with the newest or with future events instead of the oldest stored one.
   */
  @Get('cursor')
  @AllowScopes('client')
  @ApiOkResponse({ type: FeedCursorDto, description: 'The cursor.' })
  @ApiSwitchedOffError('the feed')
  async getFeedCursor(@Query() { topic, back = 0 }: FeedCursorQueryDto): Promise<FeedCursorDto> {
    this.#checkEnabled();
    return { cursor: await this.feed.getCursor(topic, back) };
  }

  /**
   * Follow the feed of a topic as Server-Sent Events
   * @remarks Sends the events after the cursor and then every new one. `data` is a FeedEvent in JSON, `id` its cursor;
   * events have no name. A comment comes every 15 seconds. The service may end a stream at any time (when it stops, when
   * its reader is too slow, when retention overtakes it): resume with the last id.
   */
  @Get('stream')
  @AllowScopes('client')
  @ApiHeader({
    name: 'Last-Event-ID',
    required: false,
    description: 'The last id that was received; takes precedence over `after`.',
    schema: { type: 'string' },
  })
  @ApiOkResponse({
    description: 'The stream.',
    content: { 'text/event-stream': { schema: EVENT_STREAM, example: STREAM_EXAMPLE } },
  })
  @ApiErrors(410)
  @ApiSwitchedOffError('the feed')
  async streamFeed(
    @Query() query: FeedStreamQueryDto,
    @Headers('last-event-id') lastEventId: string | undefined,
    @Req() request: Request,
    @Res() response: Response,
  ): Promise<void> {
    this.#checkEnabled();
    const place = { topic: query.topic, after: lastEventId || query.after };
    await this.readers.stream(response, async (stream, signal) => {
      if (request.method !== 'HEAD') return this.feed.stream(place, stream, signal);
      await this.feed.getPage(place, 1);
      stream.begin();
    });
  }

  #checkEnabled(): void {
    if (!this.settings.feedEnabled) throw new FeedNotConfigured();
  }
}
