import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { FeedBranchEntity, FeedBranchHeadEntity } from '../database/entities/feed.entity.js';
import { FeedCursors } from './epochs/feed-cursors.js';
import { FEED_LIMITS, USUAL_FEED_LIMITS } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedMirror } from './feed-mirror.js';
import { FeedNotifications } from './feed-notifications.js';
import { FeedReaders } from './feed-readers.js';
import { FeedRetention } from './feed-retention.js';
import { FeedRetentionRepository } from './feed-retention.repository.js';
import { FeedController } from './feed.controller.js';
import { FeedReader } from './feed.reader.js';
import { FeedRepository } from './feed.repository.js';
import { FeedService } from './feed.service.js';

/** The per-topic feeds that mirror the timelines. */
@Module({
  imports: [TypeOrmModule.forFeature([FeedBranchEntity, FeedBranchHeadEntity])],
  controllers: [FeedController],
  providers: [
    { provide: FEED_LIMITS, useValue: USUAL_FEED_LIMITS },
    FeedRepository,
    FeedCursors,
    FeedMirror,
    FeedMetrics,
    FeedNotifications,
    FeedReader,
    FeedReaders,
    FeedService,
    FeedRetentionRepository,
    FeedRetention,
  ],
  exports: [FeedMirror, TypeOrmModule],
})
export class FeedModule {}
