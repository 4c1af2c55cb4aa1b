import type { Schemas } from '../../api/use-api.js';
import { jsonChanges, type JsonChange } from '../../lib/json-changes.js';
import { requestedOf } from '../../run-form/options-of.js';

/** A version of a definition as the API has it. */
export type Definition = Schemas['OpDefinition'];

/** What a version says apart from which one it is: what one would send to make another like it. */
function contentOf(definition: Definition): Omit<Definition, 'createdAt' | 'updatedAt'> {
  const { createdAt: _created, updatedAt: _updated, ...content } = definition;
  return content;
}

/** What changed from one version to another. */
export function changesBetween(before: Definition, after: Definition): JsonChange[] {
  return jsonChanges({ ...contentOf(before), version: '' }, { ...contentOf(after), version: '' });
}

/** A version as the body of a request that stores it; what the service does not take stays out. */
export function toBody(definition: Definition): object {
  const { constraints, event_delivery: delivery, ...content } = contentOf(definition);
  const needs = requestedOf(constraints);
  return { ...content, constraints: needs, ...(delivery === null ? {} : { event_delivery: delivery }) };
}
