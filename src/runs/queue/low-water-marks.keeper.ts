import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Notifications } from '../../database/notifications.js';
import { LowWaterMarks } from './low-water-marks.js';
import { readQueueNews } from './queue-notifications.js';
import { QUEUE_CHANNEL } from './queue.repository.js';

/** Keeps the marks of the queue by what other processes tell of it; while they are not heard, claims go by no marks. */
@Injectable()
export class QueueMarksKeeper implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: () => void = () => undefined;

  constructor(
    @Inject(Notifications) private readonly notifications: Pick<Notifications, 'subscribe' | 'isListening'>,
    private readonly marks: LowWaterMarks,
  ) {}

  onModuleInit(): void {
    this.marks.keptBy(() => this.notifications.isListening(QUEUE_CHANNEL));
    this.#unsubscribe = this.notifications.subscribe(QUEUE_CHANNEL, (text) => this.#hear(text));
  }

  onModuleDestroy(): void {
    this.#unsubscribe();
    this.marks.keptBy(() => false);
  }

  #hear(text: string | null): void {
    const from = text === null ? null : readQueueNews(text).from;
    if (from === null) this.marks.forget();
    else for (const spot of from) this.marks.put(spot);
  }
}
