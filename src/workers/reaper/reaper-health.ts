import { Injectable } from '@nestjs/common';
import { HealthChecks } from '../../health/health-checks.js';
import { Settings } from '../../config/settings.js';
import { ReaperGrace } from './reaper-grace.js';
import { ReaperReport } from './reaper-report.js';

/** Intervals without a finished pass after which the reaper counts as stalled ... */
const INTERVALS = 5;
/** ... and milliseconds on top: a pass may wait for one answer of the database. */
const PATIENCE_MS = 25_000;

/** How the reaper is: it does its work, it waits for workers to report first, or it gets nowhere. */
export type ReaperWord = 'ok' | 'waiting' | 'stalled';

/** Tells /health how the reaper is. */
@Injectable()
export class ReaperHealth {
  constructor(
    checks: HealthChecks,
    private readonly grace: ReaperGrace,
    private readonly report: ReaperReport,
    private readonly settings: Settings,
  ) {
    checks.register('reaper', () => this.word());
  }

  /** The word that /health shows. */
  word(): ReaperWord {
    if (!this.grace.hasBegun) return 'waiting';
    const limit = INTERVALS * this.settings.reaperInterval * 1000 + PATIENCE_MS;
    if (this.report.sinceProgressMs() > limit) return 'stalled';
    return this.grace.remainingMs() > 0 ? 'waiting' : 'ok';
  }
}
