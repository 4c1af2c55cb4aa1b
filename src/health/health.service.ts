import { Injectable } from '@nestjs/common';
import { CircuitBreaker } from '../database/circuit-breaker.js';
import { HealthChecks, isWell } from './health-checks.js';

const PATIENCE_MS = 2_000;

/** Judges whether the service can do its work. */
@Injectable()
export class HealthService {
  constructor(
    breaker: CircuitBreaker,
    private readonly checks: HealthChecks,
  ) {
    checks.register('database', async () => ((await breaker.check()) ? 'ok' : 'unreachable'));
  }

  /** An object of strings: how each part is, and `status`, `ok` when all are well or else `unavailable`; it takes 2 s at most. */
  async check(): Promise<Record<string, string>> {
    const parts = await this.checks.ask(PATIENCE_MS);
    return { status: Object.values(parts).every(isWell) ? 'ok' : 'unavailable', ...parts };
  }
}
