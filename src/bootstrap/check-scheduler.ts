import type { Type } from '@nestjs/common';
import type { SchedulingStrategy } from '../runs/scheduling-strategy.js';
import { Settings } from '../config/settings.js';
import { builtInStrategies, exportedStrategies, selectStrategy } from '../claims/strategies/scheduler.js';

type Named = Pick<SchedulingStrategy, 'name'>;

/**
 * Checks SERVICE_SCHEDULER before the application and its database exist. A strategy whose name cannot be read without its
 * dependencies makes the check incomplete: then it is left to the application's own.
 * @param extensions modules whose exported strategies can be selected too
 * @throws SettingsError unless exactly one strategy has the name in the settings
 */
export function checkScheduler(settings: Settings, extensions: readonly Type[]): void {
  const added = extensions.flatMap(exportedStrategies).map((type) => tryConstruct(type, settings));
  const known = added.filter((strategy) => strategy !== undefined);
  if (known.length === added.length) {
    selectStrategy<Named>([...builtInStrategies(settings), ...known], settings.scheduler);
  }
}

/** Constructs a strategy with no dependencies but the settings. */
function tryConstruct(type: Type<SchedulingStrategy>, settings: Settings): Named | undefined {
  const parameters: unknown = Reflect.getMetadata('design:paramtypes', type);
  const dependencies = Array.isArray(parameters) ? parameters : [];
  try {
    const strategy = new type(...dependencies.map((token) => (token === Settings ? settings : undefined)));
    return typeof strategy.name === 'string' ? strategy : undefined;
  } catch {
    return undefined;
  }
}
