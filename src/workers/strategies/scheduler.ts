import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';

/** Injection token of the strategy that SERVICE_SCHEDULER selects. */
export const SCHEDULER = Symbol('SCHEDULER');

/** SERVICE_SCHEDULER cannot be followed: nothing has the name, or more than one strategy has. */
export class UnknownScheduler extends Error {
  constructor(name: string, known: readonly string[]) {
    const problem = known.includes(name) ? 'more than one strategy is' : 'no strategy is';
    super(`SERVICE_SCHEDULER: ${problem} named '${name}'; there are: ${known.join(', ')}`);
  }
}

/** @throws UnknownScheduler unless exactly one of the strategies has the name */
export function selectStrategy(strategies: readonly SchedulingStrategy[], name: string): SchedulingStrategy {
  const [chosen, ...others] = strategies.filter((strategy) => strategy.name === name);
  if (chosen && others.length === 0) return chosen;
  throw new UnknownScheduler(
    name,
    strategies.map((strategy) => strategy.name),
  );
}
