import { EVENT_EXAMPLES, EXAMPLE_RUN_ID } from '../../common/http/api-examples.js';
import {
  EVENT_TYPE_PATTERN,
  FAILURE_CAUSES,
  MAX_EXIT_CODE,
  SPECIAL_EVENT_TYPES,
} from '../machine/run-event.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../machine/run.js';

const INT32_MAX = 2 ** 31 - 1;
const TEXT = { description: 'A human-readable message.', oneOf: [{ type: 'string' }, { type: 'integer' }] };
// A look-ahead instead of `not`, which code generators ignore.
const CUSTOM_TYPE = EVENT_TYPE_PATTERN.source.replace('^', `^(?!(?:${SPECIAL_EVENT_TYPES.join('|')})$)`);

const CONTAINER_TIMES = {
  started_at: timeOf('When the container started; replaces the time of STARTED.'),
  finished_at: timeOf('When the container ended, which may be long before this report; absent: now.'),
};

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

const EVENTS = {
  StartedEvent: eventSchema('STARTED', 'The worker has started the container. The run becomes RUNNING.', {
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
        started_at: timeOf('When the container started.'),
      },
      required: ['worker_id'],
    },
    required: ['type', 'msg', 'payload'],
  }),
  ProgressEvent: eventSchema('PROGRESS', 'Sets the progress of the run.', {
    msg: { type: 'integer', minimum: 0, maximum: 100, description: 'Percentage.' },
  }),
  CompletedEvent: eventSchema('COMPLETED', 'The container has succeeded. The run becomes COMPLETED.', {
    payload: {
      type: 'object',
      properties: {
        outputs: {
          type: ['object', 'null'],
          additionalProperties: true,
          description: 'Outputs of the run; absent: the outputs stay as they are.',
        },
        outputs_changed: OUTPUTS_CHANGED,
        ...CONTAINER_TIMES,
      },
    },
  }),
  FailedEvent: eventSchema(
    'FAILED',
    'The attempt has failed. The run becomes PENDING if its retry policy allows a further attempt, else FAILED.',
    {
      payload: {
        type: 'object',
        properties: {
          error_message: { type: ['string', 'null'], description: 'Why the attempt failed.' },
          cause: {
            anyOf: [{ type: 'string', enum: [...FAILURE_CAUSES] }, { type: 'null' }],
            description:
              'What kind of failure it was; absent: `error`. After `infrastructure` (node lost, engine unavailable, too few ' +
              'resources) the run gets another attempt that uses up no retry, for 10 seconds on other workers only.',
          },
          exit_code: {
            type: ['integer', 'null'],
            minimum: 0,
            maximum: MAX_EXIT_CODE,
            description: 'Exit code of the container.',
          },
          ...CONTAINER_TIMES,
        },
      },
    },
  ),
  CancelledEvent: eventSchema('CANCELLED', 'Cancels the run.'),
  RetriedEvent: eventSchema('RETRIED', 'Opens a new attempt. The run becomes PENDING.', {
    payload: {
      type: 'object',
      properties: {
        force: { type: ['boolean', 'null'], description: 'True: also if the run has ended.' },
      },
    },
  }),
  CustomEvent: eventSchema(
    'custom',
    'An event of any other type. It is stored and does not change the run.',
    {
      type: {
        type: 'string',
        maxLength: 64,
        pattern: CUSTOM_TYPE,
        description: `Not ${SPECIAL_EVENT_TYPES.join(', ')}.`,
      },
    },
  ),
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

/** The service limits it to the time from the assignment to now. */
function timeOf(description: string): object {
  return {
    type: ['string', 'null'],
    format: 'date-time',
    description: `${description} ISO 8601; times before the assignment or in the future are moved to these limits.`,
  };
}

function eventSchema(
  example: keyof typeof EVENT_EXAMPLES,
  description: string,
  {
    type = { type: 'string', enum: [example] },
    msg = TEXT,
    payload = { type: 'object' },
    required = ['type', 'msg'],
  }: { type?: object; msg?: object; payload?: object; required?: string[] } = {},
) {
  const data = { description: 'Further data of the event.', ...payload, additionalProperties: true };
  return {
    type: 'object',
    description,
    properties: { type, msg, payload: data },
    required,
    example: EVENT_EXAMPLES[example],
  };
}

function union(description: string, members: Readonly<Record<string, object>>): object {
  return {
    description,
    oneOf: Object.keys(members).map((name) => ({ $ref: `#/components/schemas/${name}` })),
  };
}
