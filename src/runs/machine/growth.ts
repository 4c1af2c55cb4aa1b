import type { AmountGrowth } from '../../database/entities/run.entity.js';
import { isNamed } from './retry-on.js';
import type { Run } from './run.js';
import type { RunState } from './run-state.js';

/** The failures after which a run grows unless it names others. */
const DEFAULT_ON = ['oom'];

/**
 * What the next attempt has in place of what the ended one had. A run grows once for each attempt that failed as its policy
 * says, whatever opens the next one, and never for a failure of the infrastructure or a lost worker, which has no cause.
 * @param run with the end of its attempt
 * @param endState of the attempt
 */
export function growthAfter(run: Run, endState: RunState): Partial<Pick<Run, 'ramMb' | 'extraConstraints'>> {
  const { ramMb, extraConstraints, cause, exitCode } = run;
  const growth = extraConstraints?.grow?.ram_mb;
  if (growth === undefined || endState !== 'FAILED' || cause === null || cause === 'infrastructure')
    return {};
  if (!isNamed(growth.on ?? DEFAULT_ON, { cause, exitCode })) return {};
  const { ram_mb: asked, failures } = extraConstraints?.grown ?? { ram_mb: ramMb, failures: 0 };
  const grown = { ram_mb: asked, failures: failures + 1 };
  return {
    ramMb: grownAmount(asked, growth, grown.failures),
    extraConstraints: { ...extraConstraints, grown },
  };
}

/** The amount, multiplied so often by the factor as its decimal digits say, rounded up, and at most the maximum. */
export function grownAmount(amount: number, { factor, max }: AmountGrowth, times: number): number {
  const [whole = '', fraction = ''] = String(factor).split('.');
  const power = BigInt(whole + fraction) ** BigInt(times);
  const scale = 10n ** BigInt(fraction.length * times);
  const grown = (BigInt(amount) * power + scale - 1n) / scale;
  return grown < max ? Number(grown) : max;
}
