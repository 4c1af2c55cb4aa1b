import { Injectable } from '@nestjs/common';
import { withTimeout } from '@longshore/common/timeout';

/** Returns the status of a part of the service: see {@link isPassing}. */
export type HealthCheck = () => string | Promise<string>;

/** Statuses of a part that works, or that leaves the work to another process for now. */
const PASSING: ReadonlySet<string> = new Set(['ok', 'waiting']);

/** Whether a check with this status passes. */
export function isPassing(status: string): boolean {
  return PASSING.has(status);
}

/** The health checks of the service. Each context registers its own. */
@Injectable()
export class HealthChecks {
  readonly #checks = new Map<string, HealthCheck>();

  /** @param name its key in the response; not `status` @throws RangeError for a name that is taken */
  register(name: string, check: HealthCheck): void {
    if (name === 'status' || this.#checks.has(name)) {
      throw new RangeError(`the check '${name}' exists already`);
    }
    this.#checks.set(name, check);
  }

  /** Runs all checks at the same time: one that takes longer than `limitMs` is `silent`, one that throws `failing`. */
  async run(limitMs: number): Promise<Record<string, string>> {
    const results = [...this.#checks].map(async ([name, check]) => {
      const status = Promise.resolve()
        .then(check)
        .catch(() => 'failing');
      return [name, await withTimeout(limitMs, status, 'silent')] as const;
    });
    return Object.fromEntries(await Promise.all(results));
  }
}
