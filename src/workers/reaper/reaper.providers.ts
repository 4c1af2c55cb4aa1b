import type { Provider } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Settings } from '../../config/settings.js';
import { WorkerPool } from '../pool/worker-pool.js';
import { LostRunSearch } from './lost-run-search.js';
import { ObservedHolders } from './observed-holders.js';
import { OutageWatch } from './outage-watch.js';
import { ReaperClock } from './reaper-clock.js';
import { ReaperGrace } from './reaper-grace.js';
import { ReaperHealth } from './reaper-health.js';
import { ReaperReport } from './reaper-report.js';
import { Reaper } from './reaper.js';

/** The reaper with everything it is made of. */
export const REAPER_PROVIDERS: Provider[] = [
  ReaperClock,
  {
    provide: ReaperGrace,
    inject: [Settings, ReaperClock],
    useFactory: ({ workerTimeout }: Settings, clock: ReaperClock): ReaperGrace =>
      new ReaperGrace(workerTimeout * 1000, clock),
  },
  OutageWatch,
  ObservedHolders,
  {
    provide: LostRunSearch,
    inject: [DataSource, ObservedHolders, WorkerPool, ReaperGrace, ReaperClock],
    useFactory: (...parts: ConstructorParameters<typeof LostRunSearch>): LostRunSearch =>
      new LostRunSearch(...parts),
  },
  ReaperReport,
  ReaperHealth,
  Reaper,
];
