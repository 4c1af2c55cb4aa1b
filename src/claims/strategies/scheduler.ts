import type { Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';
import { SettingsError } from '@longshore/common/settings/setting';
import type { Settings } from '../../config/settings.js';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { DirectStrategy } from './direct.strategy.js';
import { FitStrategy } from './fit.strategy.js';

/** Injection token of the strategy that SERVICE_SCHEDULER selects. */
export const SCHEDULER = Symbol('SCHEDULER');

const METHODS = ['candidatesFor', 'obstacles', 'choose'] as const;

export function builtInStrategies({ fitReserveAfter }: Settings): SchedulingStrategy[] {
  return [new DirectStrategy(), new FitStrategy(fitReserveAfter)];
}

/** The strategy classes that a module exports; none for anything but a module. */
export function exportedStrategies(module: unknown): Type<SchedulingStrategy>[] {
  if (typeof module !== 'function') return [];
  const exported: unknown = Reflect.getMetadata(MODULE_METADATA.EXPORTS, module);
  return Array.isArray(exported) ? exported.filter(isStrategyClass) : [];
}

function isStrategyClass(value: unknown): value is Type<SchedulingStrategy> {
  if (typeof value !== 'function') return false;
  const prototype: unknown = value.prototype;
  return typeof prototype === 'object' && prototype !== null && METHODS.every((name) => name in prototype);
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
