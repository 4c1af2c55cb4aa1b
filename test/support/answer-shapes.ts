import assert from 'node:assert/strict';
import { FAILURE_CAUSES } from '../../src/runs/machine/run-event.js';
import { RUN_STATES } from '../../src/runs/machine/run-state.js';
import type { TestAnswer } from './test-app.js';

/** Says at which path a value is not what it must be, by throwing. */
type Check = (value: unknown, path: string) => void;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const text: Check = (value, path) => assert.equal(typeof value, 'string', `${path} is a string`);
const integer: Check = (value, path) => assert.ok(Number.isSafeInteger(value), `${path} is an integer`);
const positive: Check = (value, path) =>
  assert.ok(Number.isSafeInteger(value) && Number(value) > 0, `${path} is a positive integer`);
const uuid: Check = (value, path) => assert.match(String(value), UUID, `${path} is a UUID`);
const uuidV7: Check = (value, path) => assert.match(String(value), UUID_V7, `${path} is a UUID v7`);
const timestamp: Check = (value, path) => assert.match(String(value), TIMESTAMP, `${path} is a timestamp`);
const free: Check = (value, path) =>
  assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value), `${path} is an object`);
const message: Check = (value, path) =>
  assert.ok(typeof value === 'string' || Number.isSafeInteger(value), `${path} is a string or an integer`);

const orNull =
  (check: Check): Check =>
  (value, path) => {
    if (value !== null) check(value, path);
  };

const oneOf =
  (...values: readonly unknown[]): Check =>
  (value, path) =>
    assert.ok(values.includes(value), `${path} is one of ${values.join(', ')}`);

const listOf =
  (check: Check): Check =>
  (value, path) => {
    assert.ok(Array.isArray(value), `${path} is a list`);
    value.forEach((item, i) => check(item, `${path}[${i}]`));
  };

/** An object that has every key of `always`, may have those of `sometimes`, and has no other. */
const objectOf =
  (always: Readonly<Record<string, Check>>, sometimes: Readonly<Record<string, Check>> = {}): Check =>
  (value, path) => {
    free(value, path);
    const entries = Object.entries(Object(value));
    const given = new Set(entries.map(([key]) => key));
    const missing = Object.keys(always).filter((key) => !given.has(key));
    assert.deepEqual(missing, [], `${path} has all its fields`);
    for (const [key, item] of entries) {
      const check = always[key] ?? sometimes[key];
      assert.ok(check, `${path}.${key} is a documented field`);
      check(item, `${path}.${key}`);
    }
  };

const SUMMARY_OF_ATTEMPT = {
  worker_id: text,
  gpu_id: integer,
  assigned_at: timestamp,
  started_at: timestamp,
  finished_at: timestamp,
  queued_ms: integer,
  duration_ms: integer,
  error_message: text,
  cause: oneOf(...FAILURE_CAUSES),
  exit_code: integer,
};
const CONSTRAINTS = objectOf({ ram_mb: integer, vram_mb: integer, cpu: integer, gpu_id: orNull(integer) });
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

const OP_RUN = objectOf(
  {
    id: uuidV7,
    state: oneOf(...RUN_STATES),
    priority: integer,
    progress: integer,
    current_attempt: integer,
    image: text,
    inputs: free,
    outputs: free,
    events: listOf(TIMELINE_EVENT),
    execution_summary: objectOf({}, { ...SUMMARY_OF_ATTEMPT, reclaims: integer }),
    constraints: CONSTRAINTS,
    retry_policy: objectOf({ max_attempts: integer }, { backoff_s: positive, max_backoff_s: positive }),
    event_delivery: orNull(objectOf({ topic: text }, { attributes: free })),
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
};
const FREE = objectOf({
  cpu_cores: integer,
  ram_mb: integer,
  gpus: listOf(objectOf({ id: integer, vram_mb: integer })),
});
const LOST_OP = objectOf({
  id: uuidV7,
  state: oneOf(...RUN_STATES),
  attempt: positive,
  worker_id: orNull(text),
});
const HEARTBEAT_RESPONSE = objectOf({ ...WORKER_FIELDS, lost_ops: listOf(LOST_OP) });
const WORKER_WITH_FREE = objectOf({ ...WORKER_FIELDS, free: FREE });

const CLAIMED_OPS = objectOf({
  ops: listOf(
    objectOf(
      { id: uuidV7, image: text, inputs: free, constraints: CONSTRAINTS, attempt: integer },
      { traceparent: text, tracestate: text },
    ),
  ),
});

const RUN_EXPLANATION = objectOf({
  run_id: uuidV7,
  state: oneOf(...RUN_STATES),
  attempt: integer,
  strategy: text,
  summary: text,
  deadline: orNull(
    objectOf({ budget: oneOf('start_within_s', 'attempt_s'), at: timestamp, remaining_ms: integer }),
  ),
  queue: orNull(
    objectOf({
      position: orNull(integer),
      position_is_exact: oneOf(true, false),
      priority: integer,
      queued_at: timestamp,
      waiting_ms: integer,
      not_before: orNull(timestamp),
      start_at: orNull(timestamp),
      passed_over_at: orNull(timestamp),
      reserved_for: orNull(text),
      avoided_worker: orNull(text),
    }),
  ),
  requirements: orNull(objectOf({ selector: listOf(text), capabilities: listOf(text) })),
  concurrency: orNull(
    objectOf({
      key: text,
      limit: positive,
      executing: integer,
      holders: listOf(
        objectOf({ run_id: uuidV7, state: oneOf('ASSIGNED', 'RUNNING'), worker_id: orNull(text) }),
      ),
    }),
  ),
  holder: orNull(
    objectOf({
      worker_id: orNull(text),
      is_active: oneOf(true, false),
      draining: oneOf(true, false),
      last_heartbeat_at: orNull(timestamp),
      silent_ms: orNull(integer),
      assigned_at: orNull(timestamp),
      started_at: orNull(timestamp),
      reported_running: oneOf(true, false),
    }),
  ),
  ended: orNull(
    objectOf({
      at: timestamp,
      event: orNull(text),
      msg: orNull(message),
      worker_id: orNull(text),
      cause: orNull(oneOf(...FAILURE_CAUSES)),
      exit_code: orNull(integer),
      error_message: orNull(text),
    }),
  ),
  workers: listOf(
    objectOf({
      id: text,
      can_take_now: oneOf(true, false),
      could_ever: oneOf(true, false),
      draining: oneOf(true, false),
      obstacles: listOf(
        objectOf(
          { resource: text, needed: integer, free: integer, total: integer },
          { missing: listOf(text) },
        ),
      ),
    }),
  ),
  counts: orNull(
    objectOf({ active: integer, draining: integer, stale: integer, able_now: integer, able_ever: integer }),
  ),
});

const DEMAND_SUM = objectOf({
  runs: integer,
  cpu: integer,
  ram_mb: integer,
  vram_mb: integer,
  gpus: integer,
});
const DEMAND_NUMBERS = { pending: integer, ready: integer, waiting: integer, in_execution: integer };
const SUPPLY_SUM = objectOf({ total: integer, free: integer });

const CAPACITY_REPORT = objectOf({
  at: timestamp,
  strategy: text,
  demand: objectOf({
    pending: DEMAND_SUM,
    ready: DEMAND_SUM,
    waiting: DEMAND_SUM,
    in_execution: DEMAND_SUM,
    oldest_pending_at: orNull(timestamp),
    shapes: listOf(
      objectOf({
        cpu: integer,
        ram_mb: integer,
        vram_mb: integer,
        ...DEMAND_NUMBERS,
        placeable: oneOf(true, false, null),
        can_start_now: orNull(integer),
      }),
    ),
    other: orNull(objectOf(DEMAND_NUMBERS)),
  }),
  supply: objectOf({
    workers: objectOf({
      active: integer,
      idle: integer,
      reserved: integer,
      draining: integer,
      stale: integer,
    }),
    cpu: SUPPLY_SUM,
    ram_mb: SUPPLY_SUM,
    vram_mb: SUPPLY_SUM,
    gpus: SUPPLY_SUM,
    sizes: listOf(
      objectOf({
        cpu_cores: integer,
        ram_mb: integer,
        gpus: listOf(integer),
        workers: integer,
        idle: integer,
      }),
    ),
    other: orNull(objectOf({ sizes: integer, workers: integer, idle: integer })),
  }),
});

const REFUSED_ITEM = objectOf({
  status: oneOf(400, 404, 409, 500, 503),
  error: objectOf({ detail: text }, { errors: listOf(text) }),
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
