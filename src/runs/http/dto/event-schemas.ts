import { EVENT_EXAMPLES, EXAMPLE_RUN_ID } from '../../../bootstrap/openapi/examples.js';
import { EVENT_TYPE_PATTERN, SPECIAL_EVENT_TYPES } from '../../machine/run-event.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../../machine/run.js';

/** What the API description says about events of one type. */
interface EventSchema {
  readonly name: string;
  readonly description: string;
  readonly type: object;
  readonly msg: object;
  readonly payload: object;
  readonly payloadIsRequired?: boolean;
  readonly example: object;
}

const INT32_MAX = 2 ** 31 - 1;
const TEXT = { description: 'A message for people.', oneOf: [{ type: 'string' }, { type: 'integer' }] };
const ANY_PAYLOAD = { type: 'object', additionalProperties: true };
// A look-ahead instead of `not`, which code generators ignore.
const CUSTOM_TYPE = EVENT_TYPE_PATTERN.source.replace('^', `^(?!(?:${SPECIAL_EVENT_TYPES.join('|')})$)`);

const EVENTS: readonly EventSchema[] = [
  {
    name: 'StartedEvent',
    description: 'The worker has started the container. The run becomes RUNNING.',
    type: { type: 'string', enum: ['STARTED'] },
    msg: TEXT,
    payload: {
      type: 'object',
      properties: {
        worker_id: {
          type: 'string',
          minLength: 1,
          maxLength: 128,
          description: 'The worker that executes the run.',
        },
        gpu_id: {
          type: ['integer', 'null'],
          minimum: -INT32_MAX,
          maximum: INT32_MAX,
          description: 'The GPU in use.',
        },
      },
      required: ['worker_id'],
      additionalProperties: true,
    },
    payloadIsRequired: true,
    example: EVENT_EXAMPLES.STARTED,
  },
  {
    name: 'ProgressEvent',
    description: 'Sets the progress of the run.',
    type: { type: 'string', enum: ['PROGRESS'] },
    msg: { type: 'integer', minimum: 0, maximum: 100, description: 'Percentage.' },
    payload: ANY_PAYLOAD,
    example: EVENT_EXAMPLES.PROGRESS,
  },
  {
    name: 'CompletedEvent',
    description: 'The container has succeeded. The run becomes COMPLETED.',
    type: { type: 'string', enum: ['COMPLETED'] },
    msg: TEXT,
    payload: {
      type: 'object',
      properties: {
        outputs: {
          type: ['object', 'null'],
          additionalProperties: true,
          description: 'Outputs of the run; absent: the outputs stay as they are.',
        },
      },
      additionalProperties: true,
    },
    example: EVENT_EXAMPLES.COMPLETED,
  },
  {
    name: 'FailedEvent',
    description:
      'The attempt has failed. The run becomes PENDING if its retry policy allows a further attempt, else FAILED.',
    type: { type: 'string', enum: ['FAILED'] },
    msg: TEXT,
    payload: {
      type: 'object',
      properties: { error_message: { type: ['string', 'null'], description: 'Why the attempt failed.' } },
      additionalProperties: true,
    },
    example: EVENT_EXAMPLES.FAILED,
  },
  {
    name: 'CancelledEvent',
    description: 'Cancels the run.',
    type: { type: 'string', enum: ['CANCELLED'] },
    msg: TEXT,
    payload: ANY_PAYLOAD,
    example: EVENT_EXAMPLES.CANCELLED,
  },
  {
    name: 'RetriedEvent',
    description: 'Opens a new attempt. The run becomes PENDING.',
    type: { type: 'string', enum: ['RETRIED'] },
    msg: TEXT,
    payload: {
      type: 'object',
      properties: {
        force: { type: ['boolean', 'null'], description: 'True: also if the run has ended.' },
      },
      additionalProperties: true,
    },
    example: EVENT_EXAMPLES.RETRIED,
  },
  {
    name: 'CustomEvent',
    description: 'An event of any other type. It is stored and does not change the run.',
    type: {
      type: 'string',
      maxLength: 64,
      pattern: CUSTOM_TYPE,
      description: `Not ${SPECIAL_EVENT_TYPES.join(', ')}.`,
    },
    msg: TEXT,
    payload: ANY_PAYLOAD,
    example: EVENT_EXAMPLES.custom,
  },
];

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
  const single = EVENTS.map((event) => [event.name, schemaOf(event)] as const);
  const reported = EVENTS.map(({ name, ...event }) => {
    const { properties, required, example, ...schema } = schemaOf({ name, ...event });
    return [
      `Reported${name}`,
      {
        ...schema,
        properties: { ...RUN_FIELDS, ...properties },
        required: ['run_id', ...required],
        example: { run_id: EXAMPLE_RUN_ID, attempt: 1, ...example },
      },
    ] as const;
  });
  return {
    ...Object.fromEntries([...single, ...reported]),
    AddEventRequest: union('An event to add to the timeline of a run.', single),
    ReportedEvent: union('An event of one run in a batch.', reported),
  };
}

function schemaOf({ description, type, msg, payload, payloadIsRequired, example }: EventSchema) {
  return {
    type: 'object',
    description,
    properties: { type, msg, payload: { description: 'Further data of the event.', ...payload } },
    required: ['type', 'msg', ...(payloadIsRequired ? ['payload'] : [])],
    example,
  };
}

function union(description: string, members: readonly (readonly [string, object])[]): object {
  return { description, oneOf: members.map(([name]) => ({ $ref: `#/components/schemas/${name}` })) };
}
