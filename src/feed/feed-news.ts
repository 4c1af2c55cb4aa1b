import { Inject, Injectable } from '@nestjs/common';
import { Notifications } from '../database/notifications.js';
import { ChannelNews } from '../common/notifications/channel-news.js';
import { FEED_CHANNEL } from './feed.repository.js';

/** Tells readers that a feed has grown. */
@Injectable()
export class FeedNews extends ChannelNews {
  constructor(@Inject(Notifications) notifications: Pick<Notifications, 'subscribe' | 'hears'>) {
    super(notifications, FEED_CHANNEL);
  }
}
