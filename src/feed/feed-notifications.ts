import { Inject, Injectable } from '@nestjs/common';
import { Notifications } from '../database/notifications.js';
import { ChannelNotifications } from '../common/notifications/channel-notifications.js';
import { FEED_CHANNEL } from './feed.repository.js';

/** Tells readers that a feed has grown. */
@Injectable()
export class FeedNotifications extends ChannelNotifications {
  constructor(@Inject(Notifications) notifications: Pick<Notifications, 'subscribe' | 'isListening'>) {
    super(notifications, FEED_CHANNEL);
  }
}
