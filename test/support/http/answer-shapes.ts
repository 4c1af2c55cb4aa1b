import assert from 'node:assert/strict';
import { BULK_ACTIONS, BULK_STATES } from '../../../src/database/entities/bulk-operation.entity.js';
import { FAILURE_CAUSES } from '../../../src/runs/machine/event-types.js';
import { RUN_STATES } from '../../../src/runs/machine/run-state.js';
import { OPTIONS } from '../../../src/runs/options/option-values.js';
import type { ObjectSchema } from '../../../src/runs/options/run-option.js';
import { CAPACITY_REPORT, NOT_CLAIMING, RUN_EXPLANATION } from './report-shapes.js';
import {
  amount,
  free,
  integer,
  listOf,
  mapOf,
  message,
  objectOf,
  oneOf,
  orNull,
  positive,
  text,
  timestamp,
  uuid,
  uuidV7,
  type Check,
} from './shape-checks.js';
import type { TestAnswer } from '../app/test-app.js';

const SUMMARY_OF_ATTEMPT = {
  worker_id: text,
  gpu_id: integer,
  gpu_ids: listOf(integer),
  assigned_at: timestamp,
  started_at: timestamp,
  finished_at: timestamp,
  queued_ms: integer,
  duration_ms: integer,
  error_message: text,
  cause: oneOf(...FAILURE_CAUSES),
  exit_code: integer,
  cancel_reason: text,
};
const CONSTRAINTS = objectOf(
  { ram_mb: integer, vram_mb: integer, cpu: integer, gpu_id: orNull(integer) },
  {
    cpu_millis: integer,
    cpu_limit_millis: integer,
    gpus: integer,
    gpu_selector: listOf(text),
    shm_mb: integer,
    gpu_ids: listOf(integer),
  },
);
/** Present with one budget at least. */
const TIMEOUTS: Check = (value, path) => {
  objectOf({}, { start_within_s: positive, attempt_s: positive })(value, path);
  assert.notDeepEqual(value, {}, `${path} says something`);
};
const TIMELINE_EVENT = objectOf({
  id: integer,
  attempt: integer,
  type: text,
  t: timestamp,
  msg: message,
  payload: free,
});

/** The members of an answer that show the options. @param of the shape of a value that is set */
function optionShapes(of: (shape: Check, unset: unknown) => Check): Record<string, Check> {
  return Object.fromEntries(OPTIONS.map(([name, { schema, unset }]) => [name, of(shapeOf(schema), unset)]));
}

const MEMBERS: Readonly<Record<string, Check>> = { integer, boolean: oneOf(true, false) };

function shapeOf(schema: (typeof OPTIONS)[number][1]['schema'] | ObjectSchema): Check {
  switch (schema.type) {
    case 'string':
      return text;
    case 'integer':
      return integer;
    case 'array':
      return listOf(shapeOf(schema.items));
    case 'object': {
      if ('additionalProperties' in schema) return mapOf(shapeOf(schema.additionalProperties));
      const members = Object.entries(schema.properties).map(
        ([name, member]) => [name, MEMBERS[String(Reflect.get(member, 'type'))] ?? text] as const,
      );
      const isAlways = ([name]: readonly [string, Check]): boolean =>
        schema.required?.includes(name) ?? false;
      const sometimes = members.filter((member) => !isAlways(member));
      return objectOf(Object.fromEntries(members.filter(isAlways)), Object.fromEntries(sometimes));
    }
  }
}

const OP_RUN = objectOf(
  {
    id: uuidV7,
    name: orNull(text),
    labels: mapOf(text),
    state: oneOf(...RUN_STATES),
    priority: integer,
    progress: integer,
    current_attempt: integer,
    image: text,
    inputs: free,
    outputs: free,
    events: listOf(TIMELINE_EVENT),
    execution_summary: objectOf({}, { ...SUMMARY_OF_ATTEMPT, reclaims: integer, asked_ram_mb: positive }),
    constraints: CONSTRAINTS,
    retry_policy: objectOf(
      { max_attempts: integer },
      {
        backoff_s: positive,
        max_backoff_s: positive,
        retry_on: listOf(text),
        grow: objectOf({ ram_mb: objectOf({ factor: amount, max: positive }, { on: listOf(text) }) }),
      },
    ),
    event_delivery: orNull(objectOf({ topic: text }, { attributes: free })),
    ...optionShapes((shape, unset) => (unset === null ? orNull(shape) : shape)),
    selector: listOf(text),
    concurrency: orNull(objectOf({ key: text, limit: positive })),
    start_at: orNull(timestamp),
    op_definition: orNull(text),
    op_definition_version: orNull(text),
    createdAt: timestamp,
    updatedAt: timestamp,
  },
  { timeouts: TIMEOUTS, traceparent: text },
);

const OP_ATTEMPT = objectOf({
  id: uuidV7,
  op_run_id: uuidV7,
  attempt: integer,
  state: oneOf(...RUN_STATES),
  progress: integer,
  events: listOf(TIMELINE_EVENT),
  inputs: free,
  outputs: free,
  execution_summary: objectOf({}, SUMMARY_OF_ATTEMPT),
  constraints: CONSTRAINTS,
  started_at: orNull(timestamp),
  finished_at: orNull(timestamp),
});

const POLLED_EVENTS = objectOf({
  events: listOf(
    objectOf(
      {
        id: integer,
        type: text,
        t: timestamp,
        msg: message,
        state: oneOf(...RUN_STATES),
        payload: free,
      },
      { sender: orNull(uuid) },
    ),
  ),
});

const WORKER_FIELDS = {
  id: text,
  resources: objectOf({
    cpu_cores: integer,
    ram_mb: integer,
    gpus: listOf(objectOf({ id: integer, vram_mb: integer, tags: listOf(text) })),
  }),
  tags: listOf(text),
  capabilities: listOf(text),
  running_ops: listOf(
    objectOf({ id: text, image: text, inputs: free, constraints: free }, { attempt: positive }),
  ),
  created_at: timestamp,
  last_heartbeat_at: timestamp,
  is_active: oneOf(true, false),
  draining: oneOf(true, false),
  not_claiming: NOT_CLAIMING,
};
const FREE = objectOf({
  cpu_cores: integer,
  cpu_millis: integer,
  ram_mb: integer,
  gpus: listOf(objectOf({ id: integer, vram_mb: integer })),
});
const ASSIGNED = objectOf({ count: integer, ids: listOf(uuidV7) });
const LOST_OP = objectOf({
  id: uuidV7,
  state: oneOf(...RUN_STATES),
  attempt: positive,
  worker_id: orNull(text),
});
const OF_LAUNCHERS = { engine: objectOf({ name: text, pending: integer, running: integer }) };
const HEARTBEAT_RESPONSE = objectOf({ ...WORKER_FIELDS, lost_ops: listOf(LOST_OP) }, OF_LAUNCHERS);
const WORKER_WITH_FREE = objectOf({ ...WORKER_FIELDS, free: FREE, assigned: ASSIGNED }, OF_LAUNCHERS);

const CLAIMED_OPS = objectOf({
  ops: listOf(
    objectOf(
      { id: uuidV7, image: text, inputs: free, constraints: CONSTRAINTS, attempt: integer },
      {
        ...optionShapes((shape) => shape),
        name: text,
        labels: mapOf(text),
        traceparent: text,
        tracestate: text,
      },
    ),
  ),
});

const REFUSED_ITEM = objectOf({
  status: oneOf(400, 404, 409, 500, 503),
  error: objectOf({ detail: text }, { errors: listOf(text) }),
});

const BULK_OPERATION = objectOf({
  id: uuidV7,
  action: oneOf(...BULK_ACTIONS),
  state: oneOf(...BULK_STATES),
  matched: integer,
  done: integer,
  refused: listOf(objectOf({ id: uuid, detail: text })),
  remaining: integer,
  created_at: timestamp,
  ended_at: orNull(timestamp),
});

/** The answer to a bulk request: each item is carried out, with a status of 2xx, or refused. */
const resultsOf = (done: Check): Check =>
  objectOf({
    results: listOf((value, path) => (Object(value).status < 300 ? done : REFUSED_ITEM)(value, path)),
  });

const SHAPES = {
  OpRun: OP_RUN,
  OpAttempts: listOf(OP_ATTEMPT),
  PolledEvents: POLLED_EVENTS,
  HeartbeatResponse: HEARTBEAT_RESPONSE,
  WorkerWithFree: WORKER_WITH_FREE,
  Workers: listOf(WORKER_WITH_FREE),
  ClaimedOps: CLAIMED_OPS,
  RunExplanation: RUN_EXPLANATION,
  CapacityReport: CAPACITY_REPORT,
  CreatedRuns: resultsOf(objectOf({ status: oneOf(201), run: OP_RUN }, { replayed: oneOf(true) })),
  CreatedRunIds: resultsOf(objectOf({ status: oneOf(201), id: uuidV7 }, { replayed: oneOf(true) })),
  StartedBulkOperation: objectOf({ id: uuidV7, matched: integer }),
  BulkPreview: objectOf({ matched: integer, runs: listOf(OP_RUN) }),
  BulkOperation: BULK_OPERATION,
  RecordedEvents: resultsOf(objectOf({ status: oneOf(204) }, { replayed: oneOf(true) })),
} as const;

/**
 * The body of an answer, after checking its status, its content type and that it has exactly the fields of the
 * documented shape, at every level.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
export function bodyOf(answer: TestAnswer, shape: keyof typeof SHAPES, status = 200): any {
  assert.equal(answer.status, status, answer.text);
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json\b/);
  SHAPES[shape](answer.body, shape);
  return answer.body;
}

/** Checks an error answer to the letter: status, content type, and a body of detail and, where given, errors. */
export function assertError(
  answer: TestAnswer,
  status: number,
  detail: string,
  errors?: readonly string[],
): void {
  assert.deepEqual(
    { status: answer.status, body: answer.body },
    { status, body: errors === undefined ? { detail } : { detail, errors } },
  );
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json\b/);
}

/** Checks a refusal by the rules of fields. */
export function assertInvalid(answer: TestAnswer, errors: readonly string[]): void {
  assertError(answer, 400, 'Request validation failed', errors);
}
