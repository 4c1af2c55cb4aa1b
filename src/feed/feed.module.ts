import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { FeedEpochEntity, FeedEpochHeadEntity } from '../database/entities/feed.entity.js';
import { FeedTails } from './cache/feed-tails.js';
import { FeedCursors } from './feed-cursors.js';
import { DEFAULT_FEED_LIMITS, FEED_LIMITS } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedRetention } from './feed-retention.js';
import { FeedController, FeedReaders } from './feed.controller.js';
import { FeedReader } from './feed.reader.js';
import { FeedRepository } from './feed.repository.js';
import { FeedService } from './feed.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([FeedEpochEntity, FeedEpochHeadEntity])],
  controllers: [FeedController],
  providers: [
    { provide: FEED_LIMITS, useValue: DEFAULT_FEED_LIMITS },
    FeedRepository,
    FeedCursors,
    FeedMetrics,
    FeedTails,
    FeedReader,
    FeedReaders,
    FeedService,
    FeedRetention,
  ],
  exports: [FeedCursors, FeedRepository, FeedRetention, FeedTails, TypeOrmModule],
})
export class FeedModule {}
