import { RUN_OPTIONS, type Capability } from '@longshore/client/constants';
import { carriedOptions, type CarriedOptions } from '../service-api/service-api.js';
import { PLAIN } from './fake-service.js';

const VALUES = {
  map: { A: 'a' },
  list: ['a'],
  text: 'a',
  integer: 1,
  integers: { nofile: 1024 },
  'object-list': [],
  'object-map': {},
  'record-list': [{ scratch_mb: 1, path: '/a' }],
} as const;

/** For each option that reaches a container as it is, and that the capabilities allow, options with only this one set. */
export function sampleOptions(capabilities: readonly Capability[]): readonly Partial<CarriedOptions>[] {
  return RUN_OPTIONS.filter(
    ({ name, capabilities: needed }) =>
      name in carriedOptions(PLAIN) &&
      (needed.length === 0 ||
        needed.some((one) => capabilities.includes(typeof one === 'string' ? one : one.name))),
  ).map(({ name, kind }) => ({ [name]: VALUES[kind] }));
}
