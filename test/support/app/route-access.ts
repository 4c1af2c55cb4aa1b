import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT } from '../service-process.js';
import type { KEYS } from './test-app.js';

/** A scope of API keys. */
export type TestScope = keyof typeof KEYS;

/** Who may call each route: `public`, `any` key, or the scopes beside admin. Every route must be named here. */
export const ROUTE_ACCESS: Readonly<Record<string, 'public' | 'any' | readonly TestScope[]>> = {
  'GET /health': 'public',
  'GET /health/live': 'public',
  'GET /metrics': 'any',
  'GET /whoami': 'any',
  'POST /runs': ['client'],
  'POST /runs/batch': ['client'],
  'POST /runs/batch/cancel': ['client'],
  'POST /runs/batch/retry': ['client'],
  'POST /bulk-operations': ['client'],
  'GET /bulk-operations/{id}': ['client'],
  'POST /bulk-operations/{id}/stop': ['client'],
  'GET /runs': ['client', 'worker'],
  'GET /runs/{id}': ['client', 'worker'],
  'PATCH /runs/{id}': [],
  'PATCH /runs/{id}/labels': ['client'],
  'POST /runs/{id}/rerun': ['client'],
  'POST /runs/{id}/retry': ['client'],
  'POST /runs/{id}/cancel': ['client'],
  'GET /runs/{id}/events': ['client', 'worker'],
  'POST /runs/{id}/events': ['client', 'worker'],
  'GET /runs/{id}/attempts': ['client', 'worker'],
  'GET /runs/{id}/logs': ['client', 'worker'],
  'GET /runs/{id}/logs/stream': ['client', 'worker'],
  'PUT /runs/{id}/logs/{chunk}': ['worker'],
  'GET /runs/{id}/explain': ['client', 'worker'],
  'GET /runs/{id}/secrets': ['worker'],
  'POST /runs/{id}/artifact-urls': ['worker'],
  'GET /runs/{id}/artifacts': ['client'],
  'GET /runs/{id}/artifacts/{name}': ['client'],
  'GET /workers': ['client'],
  'GET /overview': ['client'],
  'GET /capacity': ['client'],
  'GET /capacity/wanted': ['client'],
  'GET /retention': ['client'],
  'POST /workers/heartbeat': ['worker'],
  'GET /workers/{worker_id}/runs': ['worker'],
  'DELETE /workers/{worker_id}': ['worker'],
  'POST /workers/{worker_id}/claim': ['worker'],
  'POST /workers/{worker_id}/events': ['client', 'worker'],
  'POST /workers/{worker_id}/drain': [],
  'POST /workers/{worker_id}/resume': [],
  'POST /definitions': ['client'],
  'GET /definitions': ['client'],
  'GET /definitions/{name}': ['client'],
  'DELETE /definitions/{name}': [],
  'GET /definitions/{name}/versions': ['client'],
  'POST /definitions/{name}/runs': ['client'],
  'GET /latest-definitions': ['client'],
  'GET /feed': ['client'],
  'GET /feed/cursor': ['client'],
  'GET /feed/stream': ['client'],
  'GET /pauses': ['client'],
  'PUT /pauses/{name}': [],
  'DELETE /pauses/{name}': [],
  'GET /audit': [],
  'POST /api-keys': [],
  'GET /api-keys': [],
  'PATCH /api-keys/{id}': [],
  'DELETE /api-keys/{id}': [],
  'POST /groups': ['client'],
  'GET /groups': ['client'],
  'GET /groups/{id}': ['client'],
  'GET /groups/{id}/graph': ['client'],
  'POST /groups/{id}/cancel': ['client'],
  'POST /groups/{id}/retry': ['client'],
  'POST /schedules/preview': ['client'],
  'GET /schedules': ['client'],
  'PUT /schedules/{id}': ['client'],
  'GET /schedules/{id}': ['client'],
  'DELETE /schedules/{id}': ['client'],
  'GET /schedules/{id}/fires': ['client'],
  'POST /schedules/{id}/pause': ['client'],
  'POST /schedules/{id}/resume': ['client'],
  'POST /schedules/{id}/trigger': ['client'],
  'POST /schedules/{id}/backfill': ['client'],
  'POST /files': ['client'],
  'GET /files/stores': ['client'],
  'GET /files/{id}': ['client'],
  'DELETE /files/{id}': ['client'],
  'GET /files/{id}/content': ['client'],
  'POST /files/{id}/complete': ['client'],
  'PUT /secrets/{name}': [],
  'GET /secrets': [],
  'DELETE /secrets/{name}': [],
  'POST /secrets/rotate': [],
  'POST /webhooks': [],
  'GET /webhooks': [],
  'GET /webhooks/{id}': [],
  'PATCH /webhooks/{id}': [],
  'DELETE /webhooks/{id}': [],
  'POST /webhooks/{id}/rotate-secret': [],
  'POST /webhooks/{id}/test': [],
  'GET /webhooks/{id}/deliveries': [],
  'POST /webhooks/{id}/deliveries/{delivery_id}/redeliver': [],
  'POST /webhooks/{id}/replay': [],
};

/** Routes that serve keys bound to workers; what they are told depends on the request. */
export const FOR_BOUND_KEYS: ReadonlySet<string> = new Set([
  'GET /whoami',
  'GET /runs/{id}',
  'GET /runs/{id}/events',
  'GET /runs/{id}/attempts',
  'GET /runs/{id}/logs',
  'GET /runs/{id}/logs/stream',
  'GET /runs/{id}/secrets',
  'POST /runs/{id}/artifact-urls',
  'POST /runs/{id}/events',
  'PUT /runs/{id}/logs/{chunk}',
  'POST /workers/heartbeat',
  'GET /workers/{worker_id}/runs',
  'DELETE /workers/{worker_id}',
  'POST /workers/{worker_id}/claim',
  'POST /workers/{worker_id}/events',
]);

/** A route of an OpenAPI document, such as `GET /runs/{id}`, and what the document says of it. */
export type DocumentedRoute = readonly [
  route: string,
  operation: { readonly security?: readonly Record<string, unknown>[] },
];

/** The routes of openapi.json. */
export function documentedRoutes(): DocumentedRoute[] {
  const document: {
    readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedRoute[1]>>>>;
  } = JSON.parse(readFileSync(join(PROJECT, 'openapi.json'), 'utf8'));
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(
      ([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const,
    ),
  );
}
