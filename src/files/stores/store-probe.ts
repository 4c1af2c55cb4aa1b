import { Injectable, Logger } from '@nestjs/common';
import { errorText } from '@longshore/common/errors';
import { withTimeout } from '@longshore/common/timeout';
import { Clock } from '../../common/clock.js';
import { ScheduledJob, SECOND } from '../../common/scheduling/scheduled-job.js';
import { FileStoreState } from '../../health/file-store-state.js';
import { StoreMetrics } from './store-metrics.js';
import { StoreUnavailable } from './stores.errors.js';
import { Stores } from './stores.js';

/** A store that takes longer to answer counts as away. */
const TIMEOUT_S = 6;

/** Tells whether the store of files can be used, before a run needs it. */
@Injectable()
export class StoreProbe {
  private readonly logger = new Logger('Files');

  constructor(
    private readonly stores: Stores,
    private readonly state: FileStoreState,
    private readonly metrics: StoreMetrics,
    private readonly clock: Clock,
  ) {}

  @ScheduledJob({
    name: 'file_store_probe',
    description: 'looks whether the store of files can be used',
    everyMs: 15 * SECOND,
    jitterMs: 0,
    firstDelayMs: 0,
  })
  async probe(): Promise<number> {
    const { main } = this.stores;
    if (main === null) return 0;
    const late = `no answer within ${TIMEOUT_S} s`;
    const detail = await withTimeout(
      TIMEOUT_S * SECOND,
      main.probe().then(() => null, reasonOf),
      late,
    );
    this.metrics.probed(detail === null);
    const before = this.state.health.state;
    if (!this.state.set(detail, new Date(this.clock.epochMs()))) return 0;
    if (detail !== null) this.logger.warn('the store of files cannot be used', { reason: detail });
    else if (before === 'failing') this.logger.log('the store of files can be used again');
    return 0;
  }
}

function reasonOf(error: unknown): string {
  return error instanceof StoreUnavailable ? error.reason : errorText(error);
}
