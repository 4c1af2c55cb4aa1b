import { isJsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { eventTypeOf, kindOf, type Exchange, type ExchangeKind } from './exchange.js';
import type { AnswerFault, RequestFault } from './fault-proxy.js';

/** The members of an object, with those of the objects in them; null: any value. */
interface Members {
  readonly [name: string]: Members | null;
}

const CONSTRAINTS: Members = { ram_mb: null, vram_mb: null, cpu: null, gpu_id: null };
const OP: Members = { id: null, image: null, inputs: null, constraints: CONSTRAINTS };
const WORKER: Members = {
  resources: { cpu_cores: null, ram_mb: null, gpus: { id: null, vram_mb: null, tags: null } },
  tags: null,
  running_ops: OP,
};

/** Payloads of the events that the worker itself reports; that of another event may be any object. */
const PAYLOADS: Readonly<Record<string, Members>> = {
  STARTED: { worker_id: null, gpu_id: null },
  COMPLETED: { outputs: null },
  FAILED: { error_message: null, cause: null, exit_code: null },
};

/** What the first version of the interface has of the requests that workers send; another request is of an unknown route. */
const REQUESTS: Readonly<Partial<Record<ExchangeKind, { query: readonly string[]; body: Members }>>> = {
  heartbeat: { query: [], body: { worker_id: null, ...WORKER } },
  claim: { query: ['wait'], body: {} },
  event: { query: [], body: { type: null, msg: null, payload: null } },
  run: { query: [], body: {} },
  secrets: { query: [], body: {} },
};

/** What it has of their answers. */
const ANSWERS: Readonly<Partial<Record<ExchangeKind, Members>>> = {
  heartbeat: { id: null, ...WORKER, created_at: null, last_heartbeat_at: null, is_active: null },
  claim: { ops: { ...OP, attempt: null } },
  run: {
    id: null,
    state: null,
    priority: null,
    progress: null,
    current_attempt: null,
    image: null,
    inputs: null,
    outputs: null,
    events: null,
    execution_summary: null,
    constraints: CONSTRAINTS,
    retry_policy: { max_attempts: null },
    event_delivery: null,
    op_definition: null,
    createdAt: null,
    updatedAt: null,
  },
};

/** The refusal by a service of the first version of the interface, which names what it does not know; null: it knows all. */
export function refusedByOlder(asked: Exchange): RequestFault | null {
  const { method, path, query, body } = asked;
  if (path === '/whoami') return null;
  const { [kindOf(asked)]: known } = REQUESTS;
  if (known === undefined) return { kind: 'answer', status: 404, detail: `Cannot ${method} ${path}` };
  const { [eventTypeOf(asked) ?? '']: payload = null } = PAYLOADS;
  const members = 'payload' in known.body ? { ...known.body, payload } : known.body;
  const errors = [
    ...[...query.keys()]
      .filter((name) => !known.query.includes(name))
      .map((name) => `${name} is not a known query parameter`),
    ...unknownMembers(body, members, '').map((at) => `${at} is not a known field`),
  ];
  return errors.length === 0
    ? null
    : { kind: 'answer', status: 400, detail: 'Request validation failed', errors };
}

/** The answer with what a service of the first version of the interface has of it; null: it is as it is. */
export function answeredByOlder(asked: Exchange): AnswerFault | null {
  const { [kindOf(asked)]: members } = ANSWERS;
  const { status, body } = asked.answer ?? {};
  if (members === undefined || status !== 200 || !isJsonObject(body)) return null;
  return { kind: 'alter', body: withMembers(body, members) };
}

/** Paths of what the members do not have. */
function unknownMembers(value: unknown, members: Members | null, path: string): string[] {
  if (members === null) return [];
  if (Array.isArray(value))
    return value.flatMap((item, index) => unknownMembers(item, members, `${path}.${index}`));
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([name, item]) => {
    const at = path === '' ? name : `${path}.${name}`;
    const { [name]: inner } = members;
    return inner === undefined ? [at] : unknownMembers(item, inner, at);
  });
}

function withMembers(value: JsonValue, members: Members | null): JsonValue {
  if (members === null) return value;
  if (Array.isArray(value)) return value.map((item) => withMembers(item, members));
  if (!isJsonObject(value)) return value;
  const known = Object.entries(value).flatMap(([name, item]) => {
    const { [name]: inner } = members;
    return inner === undefined ? [] : [[name, withMembers(item, inner)] as const];
  });
  return Object.fromEntries(known);
}
