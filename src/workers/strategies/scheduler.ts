import type { Provider } from '@nestjs/common';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { Settings } from '../../settings/settings.js';
import { DirectStrategy } from './direct.strategy.js';

/** Injection token of every strategy that can be selected. */
export const SCHEDULING_STRATEGIES = Symbol('SCHEDULING_STRATEGIES');

/** Injection token of the strategy that SERVICE_SCHEDULER selects. */
export const SCHEDULER = Symbol('SCHEDULER');

/** Names a strategy that is not there. */
export class UnknownScheduler extends Error {
  constructor(name: string, known: readonly string[]) {
    super(`SERVICE_SCHEDULER: no strategy is named '${name}'; there are: ${known.join(', ')}`);
  }
}

/** The strategies that Longshore ships. */
export const STRATEGIES_PROVIDER: Provider = {
  provide: SCHEDULING_STRATEGIES,
  useFactory: (): SchedulingStrategy[] => [new DirectStrategy()],
};

/** @throws UnknownScheduler when no strategy has the name in the settings */
export const SCHEDULER_PROVIDER: Provider = {
  provide: SCHEDULER,
  inject: [SCHEDULING_STRATEGIES, Settings],
  useFactory: (strategies: readonly SchedulingStrategy[], settings: Settings): SchedulingStrategy => {
    const chosen = strategies.find(({ name }) => name === settings.scheduler);
    if (chosen) return chosen;
    throw new UnknownScheduler(
      settings.scheduler,
      strategies.map(({ name }) => name),
    );
  },
};
