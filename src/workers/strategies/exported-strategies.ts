import { MODULE_METADATA } from '@nestjs/common/constants.js';
import type { Type } from '@nestjs/common';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';

const METHODS = ['candidatesFor', 'obstacles', 'choose'] as const;

/** The provider classes that a module exports and that are scheduling strategies; none for anything but a module. */
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
