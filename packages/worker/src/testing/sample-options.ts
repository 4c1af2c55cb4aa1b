import { RUN_OPTIONS, type Capability } from '@longshore/client/constants';
import { carriedOptions, type CarriedOptions } from '../service-api/service-api.js';
import { PLAIN } from './fake-service.js';

const VALUES = {
  map: { A: 'a' },
  list: ['a'],
  text: 'a',
  integer: 1,
  'object-list': [],
  'object-map': {},
} as const;

/** For each option that reaches a container as it is, and that the capabilities allow, options with only this one set. */
export function sampleOptions(capabilities: readonly Capability[]): readonly Partial<CarriedOptions>[] {
  return RUN_OPTIONS.filter(
    ({ name, capability }) =>
      name in carriedOptions(PLAIN) && (capability === null || capabilities.includes(capability)),
  ).map(({ name, kind }) => ({ [name]: VALUES[kind] }));
}
