import { Injectable, Logger, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { JobScheduler } from '../common/scheduling/job-scheduler.js';
import { MINUTE, RETENTION, SECOND, ScheduledJob, type JobRun } from '../common/scheduling/scheduled-job.js';
import { CommitNotices } from '../database/notices/commit-notices.js';
import { isDatabaseUnavailable } from '../database/failover/unavailable.js';
import { inBatches, paced } from '../database/sql/in-batches.js';
import { DeliveryRepository } from './delivery.repository.js';
import { TurnRepository } from './delivery/turn.repository.js';
import { WebhookTurns } from './delivery/webhook-turn.js';

const WEBHOOKS = 'webhooks';
/** Pause after a commit, in which further ones may come. */
const AFTER_COMMIT_MS = 200;
/** Milliseconds for which a delivery is kept that is not parked. */
const KEEP_DELIVERIES_MS = 7 * 24 * 60 * MINUTE;
const DELIVERIES_PER_BATCH = 1000;

/** Begins the turns of webhooks when they are due. They go on beside the job, so that a slow endpoint delays no other. */
@Injectable()
export class WebhooksJob implements OnModuleInit, OnModuleDestroy {
  private readonly logger = new Logger('Webhooks');
  readonly #turns = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();
  #areThere = false;
  #unsubscribe: (() => void) | undefined;

  constructor(
    private readonly webhooks: TurnRepository,
    private readonly deliveries: DeliveryRepository,
    private readonly turns: WebhookTurns,
    private readonly notices: CommitNotices,
    private readonly scheduler: JobScheduler,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices.subscribe((notice) => {
      if (this.#areThere || notice === null || notice.webhooks)
        this.scheduler.runWithin(WEBHOOKS, AFTER_COMMIT_MS);
    });
  }

  async onModuleDestroy(): Promise<void> {
    this.#unsubscribe?.();
    this.#stop.abort();
    await Promise.all(this.#turns.values());
  }

  @ScheduledJob({
    name: WEBHOOKS,
    description: 'sends events to webhooks; also runs after commits, if there are webhooks',
    everyMs: MINUTE,
    jitterMs: 20,
    firstDelayMs: 0,
    level: 'debug',
    retry: { firstMs: SECOND, longestMs: 10 * SECOND },
  })
  async run(): Promise<number> {
    const found = await this.webhooks.listDue();
    this.#areThere = found.length > 0;
    let begun = 0;
    let nextInMs = Infinity;
    for (const { id, inMs } of found) {
      if (inMs === null || this.#turns.has(id) || this.#stop.signal.aborted) continue;
      if (inMs > 0) {
        nextInMs = Math.min(nextInMs, inMs);
        continue;
      }
      begun += 1;
      this.#turns.set(id, this.#turn(id));
    }
    if (nextInMs < MINUTE) this.scheduler.runWithin(WEBHOOKS, nextInMs);
    return begun;
  }

  /** What has become due meanwhile is looked for afterwards; after an error, at the next run of the job. */
  async #turn(id: string): Promise<void> {
    try {
      await this.turns.run(id, this.#stop.signal);
      this.scheduler.runWithin(WEBHOOKS, 0);
    } catch (error) {
      const level = isDatabaseUnavailable(error) ? 'warn' : 'error';
      const stack = error instanceof Error ? error.stack : String(error);
      this.logger[level](`A turn of webhook ${id} failed, it will be repeated`, stack);
    } finally {
      this.#turns.delete(id);
    }
  }

  @ScheduledJob({
    name: 'webhook_delivery_retention',
    description: 'removes deliveries of webhooks that are 7 days old and not waiting for another try',
    ...RETENTION,
    everyMs: 10 * MINUTE,
  })
  async removeOld({ now, stop }: JobRun): Promise<number> {
    const before = new Date((await now()).getTime() - KEEP_DELIVERIES_MS);
    return inBatches(DELIVERIES_PER_BATCH, stop, () =>
      paced(stop, () => this.deliveries.removeSettled(before, DELIVERIES_PER_BATCH)),
    );
  }
}
