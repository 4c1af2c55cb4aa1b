import { FAILURE_CAUSES } from '../../../src/runs/machine/event-types.js';
import { RUN_STATES } from '../../../src/runs/machine/run-state.js';
import { NOT_CLAIMING_REASONS } from '../../../src/workers/pool/worker-pool.js';
import {
  amount,
  integer,
  listOf,
  message,
  objectOf,
  oneOf,
  orNull,
  positive,
  text,
  timestamp,
  uuidV7,
} from './shape-checks.js';

/** Why a worker does not claim. */
export const NOT_CLAIMING = listOf(objectOf({ reason: oneOf(...NOT_CLAIMING_REASONS), message: text }));

/** The explanation of a run. */
export const RUN_EXPLANATION = objectOf({
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
  requirements: orNull(
    objectOf({ selector: listOf(text), capabilities: listOf(text), gpu_selector: listOf(text) }),
  ),
  concurrency: orNull(
    objectOf({
      key: text,
      limit: positive,
      executing: integer,
      holders: listOf(objectOf({ run_id: uuidV7, state: oneOf(...RUN_STATES), worker_id: orNull(text) })),
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
      engine: orNull(objectOf({ name: text, id: text, reason: orNull(text), at: timestamp })),
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
      not_claiming: NOT_CLAIMING,
      obstacles: listOf(
        objectOf({ resource: text, needed: amount, free: amount, total: amount }, { missing: listOf(text) }),
      ),
    }),
  ),
  counts: orNull(
    objectOf({
      active: integer,
      draining: integer,
      not_claiming: integer,
      stale: integer,
      able_now: integer,
      able_ever: integer,
    }),
  ),
});

const DEMAND_SUM = objectOf({
  runs: integer,
  cpu: integer,
  cpu_millis: integer,
  ram_mb: integer,
  vram_mb: integer,
  gpus: integer,
});
const DEMAND_NUMBERS = { pending: integer, ready: integer, waiting: integer, in_execution: integer };
const SUPPLY_SUM = objectOf({ total: integer, free: integer });

/** The report about capacity. */
export const CAPACITY_REPORT = objectOf({
  at: timestamp,
  strategy: text,
  demand: objectOf({
    at_least: oneOf(true, false),
    pending: DEMAND_SUM,
    ready: DEMAND_SUM,
    waiting: DEMAND_SUM,
    in_execution: DEMAND_SUM,
    held_back: integer,
    oldest_pending_at: orNull(timestamp),
    shapes: listOf(
      objectOf({
        cpu: integer,
        cpu_millis: integer,
        ram_mb: integer,
        vram_mb: integer,
        gpus: integer,
        ...DEMAND_NUMBERS,
        placeable: oneOf(true, false, null),
        can_start_now: orNull(integer),
      }),
    ),
    other: orNull(objectOf(DEMAND_NUMBERS)),
    selectors: listOf(
      objectOf({
        selector: listOf(text),
        capabilities: listOf(text),
        gpu_selector: listOf(text),
        pending: DEMAND_SUM,
        ready: DEMAND_SUM,
        waiting: DEMAND_SUM,
        in_execution: DEMAND_SUM,
        lacking: orNull(text),
        held_back: integer,
        workers: integer,
        idle: integer,
      }),
    ),
    other_selectors: orNull(objectOf(DEMAND_NUMBERS)),
  }),
  supply: objectOf({
    workers: objectOf({
      active: integer,
      idle: integer,
      reserved: integer,
      draining: integer,
      not_claiming: integer,
      stale: integer,
    }),
    cpu: SUPPLY_SUM,
    cpu_millis: SUPPLY_SUM,
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
    engines: listOf(objectOf({ name: text, launchers: positive, pending: integer, running: integer })),
  }),
});
