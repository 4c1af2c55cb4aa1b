import { Module } from '@nestjs/common';
import { FeedRepository } from './feed.repository.js';

/** The per-topic feeds that mirror the timelines. */
@Module({ providers: [FeedRepository], exports: [FeedRepository] })
export class FeedModule {}
