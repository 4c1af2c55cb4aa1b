import { EVENT_EXAMPLES, EXAMPLE_RUN_ID } from '../../common/http/api-examples.js';
import { UNIX_SECONDS } from '@longshore/common/json/read-timestamp';
import {
  EVENT_TYPE_PATTERN,
  EVENT_TYPES,
  SPECIAL_EVENT_TYPES,
  type EventType,
  type ValueSchema,
} from '../machine/event-types.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../machine/run.js';

const TEXT = { description: 'A human-readable message.', oneOf: [{ type: 'string' }, { type: 'integer' }] };
// A look-ahead instead of `not`, which code generators ignore.
const CUSTOM_TYPE = EVENT_TYPE_PATTERN.source.replace('^', `^(?!(?:${SPECIAL_EVENT_TYPES.join('|')})$)`);

const OUTPUTS_CHANGED = {
  type: 'object',
  description:
    'What the worker has changed in the outputs; absent: nothing; empty: the event would be too large with it. The service ' +
    'stores it as it is.',
  properties: {
    masked: {
      type: 'array',
      description: 'Places with values of secrets, which became `***`, up to 20.',
      items: {
        type: 'object',
        properties: {
          path: { type: 'string', description: 'JSON pointer to the string, or to the object with the key.' },
          key: { type: 'boolean', description: 'Whether a key was masked, not a string.' },
          secrets: {
            type: 'array',
            items: { type: 'string' },
            description: 'Environment variables of the secrets.',
          },
        },
        required: ['path', 'key', 'secrets'],
        additionalProperties: true,
      },
    },
    replaced: {
      type: 'integer',
      minimum: 0,
      description: 'Characters that cannot be stored and became U+FFFD.',
    },
  },
  additionalProperties: true,
};

/** Fields that the service stores as they are, by type. */
const UNCHECKED: Partial<Record<TypeName, object>> = { COMPLETED: { outputs_changed: OUTPUTS_CHANGED } };

type TypeName = keyof typeof EVENT_TYPES;

const EVENTS = {
  PreparingEvent: eventSchema('PREPARING'),
  StartedEvent: eventSchema('STARTED'),
  ProgressEvent: eventSchema('PROGRESS'),
  CompletedEvent: eventSchema('COMPLETED'),
  FailedEvent: eventSchema('FAILED'),
  CancelledEvent: eventSchema('CANCELLED'),
  RetriedEvent: eventSchema('RETRIED'),
  CustomEvent: describedEvent('An event of any other type. It is stored and does not change the run.', {
    type: {
      type: 'string',
      maxLength: 64,
      pattern: CUSTOM_TYPE,
      description: `Not ${SPECIAL_EVENT_TYPES.join(', ')}.`,
    },
    example: EVENT_EXAMPLES.custom,
  }),
};

/** Fields that name the run of an event in a batch. */
const RUN_FIELDS = {
  run_id: { type: 'string', minLength: 1, maxLength: 128, description: 'The run of the event.' },
  attempt: {
    type: 'integer',
    minimum: 1,
    maximum: MAX_ATTEMPTS_OF_A_RUN,
    description: 'The attempt of the event; 409 if it is not the current one.',
  },
};

/**
 * The schemas of events in requests: a union by `type`, with the payload that each type needs. Decorators cannot
 * describe it, since one class reads events of all types.
 */
export function eventSchemas(): Record<string, object> {
  // The rules of the document change its schemas.
  const single = structuredClone(EVENTS);
  const reported = Object.fromEntries(
    Object.entries(structuredClone(EVENTS)).map(([name, { properties, required, example, ...schema }]) => [
      `Reported${name}`,
      {
        ...schema,
        properties: { ...RUN_FIELDS, ...properties },
        required: ['run_id', ...required],
        example: { run_id: EXAMPLE_RUN_ID, attempt: 1, ...example },
      },
    ]),
  );
  return {
    ...single,
    ...reported,
    AddEventRequest: union('An event to add to the timeline of a run.', single),
    ReportedEvent: union('An event of one run in a batch.', reported),
  };
}

function eventSchema(name: TypeName) {
  const { description, msg, payload, required = [] }: EventType = EVENT_TYPES[name];
  const fields = Object.entries(payload).map(
    ([field, schema]) => [field, required.includes(field) ? schema : nullable(schema)] as const,
  );
  const properties = { ...Object.fromEntries(fields), ...UNCHECKED[name] };
  return describedEvent(description, {
    type: { type: 'string', enum: [name] },
    ...(msg && { msg }),
    ...(fields.length > 0 && {
      payload: { type: 'object', properties, ...(required.length > 0 && { required }) },
    }),
    isPayloadRequired: required.length > 0,
    example: EVENT_EXAMPLES[name],
  });
}

function nullable({ type, description, ...schema }: ValueSchema): object {
  // A time may also be UNIX seconds.
  if (schema.format !== undefined)
    return { type: [type, 'number', 'null'], ...schema, ...UNIX_SECONDS, description };
  if (schema.enum === undefined) return { type: [type, 'null'], ...schema, description };
  return { anyOf: [{ type, enum: schema.enum }, { type: 'null' }], description };
}

function describedEvent(
  description: string,
  parts: { type: object; msg?: object; payload?: object; isPayloadRequired?: boolean; example: object },
) {
  const { type, msg = TEXT, payload = { type: 'object' }, isPayloadRequired = false, example } = parts;
  const data = { description: 'Further data of the event.', ...payload, additionalProperties: true };
  return {
    type: 'object',
    description,
    properties: { type, msg, payload: data },
    required: ['type', 'msg', ...(isPayloadRequired ? ['payload'] : [])],
    example,
  };
}

function union(description: string, members: Readonly<Record<string, object>>): object {
  return {
    description,
    oneOf: Object.keys(members).map((name) => ({ $ref: `#/components/schemas/${name}` })),
  };
}
