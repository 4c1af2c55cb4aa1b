import assert from 'node:assert/strict';
import { readApiDocument, schemasOf, type Schema } from '../fuzz/api-document.js';
import type { TestAnswer } from '../app/test-app.js';

const UUID_V7 = '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$';
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const component = (name: string): Schema => ({ $ref: `closed#/components/schemas/${name}` });
const listOf = (items: Schema): Schema => ({ type: 'array', items });
/** The answer to a bulk request: each item is carried out or refused. */
const resultsOf = (done: Schema): Schema => ({
  type: 'object',
  required: ['results'],
  properties: { results: listOf({ oneOf: [done, component('RefusedItem')] }) },
  additionalProperties: false,
});
const withIdOfVersion7 = (name: string, more: Readonly<Record<string, Schema>> = {}): Schema => ({
  allOf: [component(name), { properties: { id: { pattern: UUID_V7 }, ...more } }],
});

/** What the API description says of answers, and what it has no word for. */
const SHAPES = {
  OpRun: withIdOfVersion7('OpRun', { timeouts: { minProperties: 1 } }),
  OpRunPreview: withIdOfVersion7('OpRunPreview', { timeouts: { minProperties: 1 } }),
  OpAttempts: listOf(withIdOfVersion7('OpAttempt')),
  PolledEvents: component('PolledEvents'),
  HeartbeatResponse: component('HeartbeatResponse'),
  WorkerWithFree: component('Worker'),
  Workers: listOf(component('Worker')),
  HeldRuns: component('HeldRuns'),
  ClaimedOps: component('ClaimedOps'),
  RunExplanation: component('RunExplanation'),
  Group: withIdOfVersion7('Group'),
  GroupGraph: component('GroupGraph'),
  Pause: component('Pause'),
  Pauses: listOf(component('Pause')),
  CapacityReport: component('CapacityReport'),
  WantedWorkers: component('WantedWorkers'),
  Retention: component('Retention'),
  CreatedRuns: resultsOf(component('CreatedRun')),
  CreatedRunIds: resultsOf(component('CreatedRunId')),
  StartedBulkOperation: component('BulkOperationStarted'),
  BulkPreview: component('BulkOperationPreview'),
  BulkOperation: withIdOfVersion7('BulkOperation'),
  File: component('File'),
  FileCreated: component('FileCreated'),
  FileUrl: component('FileUrl'),
  FileStores: listOf(component('FileStore')),
  Webhook: withIdOfVersion7('Webhook'),
  Webhooks: listOf(withIdOfVersion7('Webhook')),
  WebhookWithSecret: withIdOfVersion7('WebhookWithSecret'),
  WebhookDelivery: component('WebhookDelivery'),
  WebhookDeliveries: listOf(component('WebhookDelivery')),
  RecordedEvents: resultsOf(component('RecordedEvent')),
} as const satisfies Readonly<Record<string, Schema>>;

const ajv = schemasOf(readApiDocument());
ajv.addFormat('date-time', TIMESTAMP);

/**
 * The body of an answer, after checking its status, its content type and that it has exactly the fields of the
 * documented shape, at every level.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
export function bodyOf(answer: TestAnswer, shape: keyof typeof SHAPES, status = 200): any {
  assert.equal(answer.status, status, answer.text);
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json\b/);
  const isValid = ajv.validate(SHAPES[shape], answer.body);
  assert.ok(isValid, `${shape}: ${ajv.errorsText()} in ${answer.text}`);
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
