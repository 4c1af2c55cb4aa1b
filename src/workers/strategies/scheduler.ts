import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { SettingsError } from '@longshore/common/settings/setting';
import type { Settings } from '../../config/settings.js';
import { DirectStrategy } from './direct.strategy.js';
import { FitStrategy } from './fit.strategy.js';

/** Injection token of the strategy that SERVICE_SCHEDULER selects. */
export const SCHEDULER = Symbol('SCHEDULER');

/** The strategies that are always there. */
export function builtInStrategies({ fitReserveAfter }: Settings): SchedulingStrategy[] {
  return [new DirectStrategy(), new FitStrategy(fitReserveAfter)];
}

/** @throws SettingsError unless exactly one of the strategies has the name */
export function selectStrategy<T extends Pick<SchedulingStrategy, 'name'>>(
  strategies: readonly T[],
  name: string,
): T {
  const [chosen, ...others] = strategies.filter((strategy) => strategy.name === name);
  if (chosen && others.length === 0) return chosen;
  const problem = chosen === undefined ? 'no strategy is' : 'more than one strategy is';
  const names = strategies.map((strategy) => strategy.name);
  throw new SettingsError([`SERVICE_SCHEDULER: ${problem} named '${name}'; there are: ${names.join(', ')}`]);
}
