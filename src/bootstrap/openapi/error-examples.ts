import {
  EXAMPLE_API_KEY_ID,
  EXAMPLE_BULK_OPERATION_ID,
  EXAMPLE_CURSOR,
  EXAMPLE_FILE_ID,
  EXAMPLE_GROUP_ID,
  EXAMPLE_RUN_ID,
  EXAMPLE_WEBHOOK_ID,
  EXAMPLE_WORKER_ID,
} from '../../common/http/api-examples.js';
import type { ErrorDto } from '../../common/http/errors/error.dto.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';

type Examples = Readonly<Partial<Record<number, ErrorDto>>>;

/** Responses of every operation, unless its family or the operation itself has another one. */
const COMMON: Examples = {
  400: invalid('unknown is not a known query parameter'),
  401: { detail: 'Missing API key' },
  408: { detail: 'Request took too long to arrive' },
  413: { detail: 'Request body is larger than 1048576 bytes' },
  415: { detail: 'Request body must be application/json in UTF-8' },
  429: { detail: 'Too many requests' },
  503: { detail: 'The database is not available' },
};

const KEY_REUSED: ErrorDto = { detail: 'Idempotency-Key was used with another request body' };
const NOT_ASSIGNED: ErrorDto = { detail: `Run '${EXAMPLE_RUN_ID}' is not assigned to worker 'worker-2'` };

const NO_FILES = { detail: 'Files are not configured' };

/** By the first part of the path. */
const BY_FAMILY: Readonly<Record<string, Examples>> = {
  runs: { 404: { detail: `OpRun '${EXAMPLE_RUN_ID}' not found` }, 409: KEY_REUSED },
  'bulk-operations': {
    404: { detail: `Bulk operation '${EXAMPLE_BULK_OPERATION_ID}' not found` },
    409: { detail: 'The filter matches 0 runs, not 2' },
  },
  definitions: { 404: { detail: "OpDefinition 'word-count' not found" }, 409: KEY_REUSED },
  feed: {
    400: invalid('topic is required'),
    410: {
      detail: `Events after this cursor are no longer kept; the oldest cursor that still works is '${EXAMPLE_CURSOR}'`,
    },
    503: { detail: 'Event feed is not configured' },
  },
  workers: {
    404: { detail: `Worker '${EXAMPLE_WORKER_ID}' not found` },
    409: { detail: `Worker '${EXAMPLE_WORKER_ID}' still holds 1 run` },
  },
  groups: { 404: { detail: `Group '${EXAMPLE_GROUP_ID}' not found` }, 409: KEY_REUSED },
  schedules: { 404: { detail: "Schedule 'nightly-report' not found" } },
  pauses: {
    404: { detail: "Pause 'move' not found" },
    409: { detail: 'There are 100 pauses, which is the most' },
  },
  secrets: {
    404: { detail: "Secret 'database-password' not found" },
    503: { detail: 'Secrets are not configured', errors: ['the operator must set SERVICE_SECRETS_KEY'] },
  },
  files: {
    404: { detail: `File '${EXAMPLE_FILE_ID}' not found` },
    409: { detail: `File '${EXAMPLE_FILE_ID}' is not uploaded yet` },
    410: { detail: `File '${EXAMPLE_FILE_ID}' was removed at 2026-01-02T03:04:05.678Z` },
    503: NO_FILES,
  },
  webhooks: { 404: { detail: `Webhook '${EXAMPLE_WEBHOOK_ID}' not found` } },
  'api-keys': { 404: { detail: `API key '${EXAMPLE_API_KEY_ID}' not found` } },
};

/** By the id of the operation. */
const BY_OPERATION: Readonly<Record<string, Examples>> = {
  createRun: { 400: invalid('image is required') },
  createWebhook: {
    400: invalid('url is required'),
    409: { detail: 'There are 100 webhooks already' },
    503: { detail: 'Secrets are not configured', errors: ['the operator must set SERVICE_SECRETS_KEY'] },
  },
  updateWebhook: { 400: invalid('url must be a string without control characters of 1 to 2048 characters') },
  rotateWebhookSecret: {
    400: invalid('keep_old_s must be an integer from 0 to 2592000'),
    503: { detail: 'Secrets are not configured', errors: ['the operator must set SERVICE_SECRETS_KEY'] },
  },
  replayWebhook: { 400: invalid('from is required') },
  patchRun: { 400: invalid('priority must be an integer from -2147483648 to 2147483647') },
  labelRun: { 400: invalid('name must be a string without control characters of 1 to 200 characters') },
  cancelRun: { 400: { detail: 'Run is already in terminal state COMPLETED' } },
  rerunRun: {
    400: invalid('unknown is not a known field'),
    409: { detail: 'Run is RUNNING: only a run that has ended is repeated' },
  },
  addEvent: { 400: invalid('msg must be an integer from 0 to 100'), 409: NOT_ASSIGNED },
  upsertDefinition: { 400: invalid('id is required', 'version is required', 'image is required') },
  deleteDefinition: { 400: { detail: 'version is required, or all=true for all versions' } },
  createDefinitionRun: { 400: { detail: 'Invalid inputs', errors: ['inputs.text is required'] } },
  sendHeartbeat: { 400: invalid('worker_id is required', 'resources is required', 'tags is required') },
  putLogChunk: {
    400: invalid('first_line is required', 'lines is required'),
    409: { detail: `Attempt 1 of run '${EXAMPLE_RUN_ID}' was not assigned to this worker` },
  },
  getRunSecrets: { 409: NOT_ASSIGNED },
  createArtifactUrls: { 400: invalid('names is required'), 409: NOT_ASSIGNED, 503: NO_FILES },
  listArtifacts: { 503: NO_FILES },
  getArtifactContent: {
    409: { detail: "The content of artifact 'model' is no longer the one that the run left" },
    410: { detail: "Artifact 'model' was removed at 2026-01-02T03:04:05.678Z" },
    503: NO_FILES,
  },
  createRuns: { 400: invalid('runs is required') },
  cancelRuns: { 400: invalid('ids is required') },
  retryRuns: { 400: invalid('ids is required') },
  createBulkOperation: { 400: invalid('action is required', 'filter is required') },
  reportEvents: { 400: invalid('events is required') },
  putPause: { 400: invalid('where is required', 'reason is required') },
  createGroup: { 400: invalid('exactly one of runs and array must be given') },
  cancelGroup: { 400: invalid('reason must be a string without control characters of 1 to 500 characters') },
  retryGroup: { 400: invalid('only must be one of failed, all') },
  previewSchedule: { 400: invalid('cron, every_s: exactly one of the two is required') },
  putSchedule: { 400: invalid('cron, every_s: exactly one of the two is required') },
  pauseSchedule: { 400: invalid('note must be a string without control characters of 1 to 500 characters') },
  backfillSchedule: { 400: invalid('from is required', 'until is required') },
  putSecret: { 400: invalid('kind is required') },
  createFile: { 400: invalid('name is required', 'bytes is required') },
  completeFile: {
    400: invalid('etags is required'),
    409: { detail: `File '${EXAMPLE_FILE_ID}' is not uploaded in parts` },
  },
  deleteFile: { 409: { detail: `File '${EXAMPLE_FILE_ID}' is used by the schedule 'nightly-report'` } },
  updateApiKey: { 400: invalid('max_file_bytes must be an integer of at least 0') },
  createApiKey: { 400: invalid('name is required', 'scopes is required') },
  getMetrics: {
    403: { detail: 'API key is bound to workers and cannot use this route' },
    503: { detail: 'Metrics are not available now' },
  },
};

/** The error that an operation answers with a status; undefined for one that is not known. */
export function errorExample(operationId: string, path: string, status: number): ErrorDto | undefined {
  const family = path.split('/')[1] ?? '';
  return BY_OPERATION[operationId]?.[status] ?? BY_FAMILY[family]?.[status] ?? COMMON[status];
}

function invalid(...errors: string[]): ErrorDto {
  return { detail: VALIDATION_FAILED, errors };
}
