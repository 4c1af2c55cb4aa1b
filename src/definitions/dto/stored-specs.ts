import type { DefinitionEntity } from '../../database/entities/definition.entity.js';
import { isJsonObject } from '@longshore/common/json/json-value';
import type { InputSpec } from '../input-specs.js';
import type { InputSpecInputDto } from './specs.dto.js';

/** Specs as a client sent them, complete. */
export function readInputSpecs(
  given: ReadonlyMap<string, InputSpecInputDto> = new Map(),
): Map<string, InputSpec> {
  return new Map(
    [...given].map(([name, spec]) => [
      name,
      { type: spec.type, required: spec.required ?? false, default: spec.default ?? null },
    ]),
  );
}

/** Specs as they are stored. @throws Error when the row holds something else */
export function specsOf({ inputSpecs }: DefinitionEntity): Map<string, InputSpec> {
  return new Map(
    Object.entries(inputSpecs).map(([name, spec]) => {
      if (!isJsonObject(spec) || typeof spec['type'] !== 'string')
        throw new Error('a stored input spec is damaged');
      return [
        name,
        { type: spec['type'], required: spec['required'] === true, default: spec['default'] ?? null },
      ];
    }),
  );
}
