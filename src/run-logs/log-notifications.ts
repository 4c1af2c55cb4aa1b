import { Inject, Injectable } from '@nestjs/common';
import { Notifications } from '../database/notifications.js';
import { ChannelNotifications } from '../common/notifications/channel-notifications.js';
import { LOG_CHANNEL, type LogId } from './run-log.repository.js';

/** Tells readers that a log has grown. */
@Injectable()
export class LogNotifications extends ChannelNotifications {
  constructor(@Inject(Notifications) notifications: Pick<Notifications, 'subscribe' | 'isListening'>) {
    super(notifications, LOG_CHANNEL);
  }
}

/** The topic under which a log is announced. */
export function topicOf({ runId, attempt }: LogId): string {
  return `${runId} ${attempt}`;
}

/** The log that is announced under a topic. */
export function logOf(topic: string): LogId {
  const [runId = '', attempt = ''] = topic.split(' ');
  return { runId, attempt: Number(attempt) };
}
