import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'vitest';
import * as extension from './extension.js';

test('longshore/extension exports what is documented, and nothing else', () => {
  assert.deepEqual(Object.keys(extension).toSorted(), [
    'AllowScopes',
    'ApiKeyEntity',
    'AttemptEntity',
    'AuditEntryEntity',
    'CurrentCaller',
    'DefinitionEntity',
    'DefinitionNotFound',
    'DomainError',
    'EventEntity',
    'FeedEntryEntity',
    'IdempotencyMismatch',
    'InvalidInputs',
    'InvalidRequest',
    'NotFound',
    'Public',
    'RunEntity',
    'RunEvents',
    'RunNotFound',
    'RunReader',
    'RunRejected',
    'RunsService',
    'ScheduledJob',
    'needsOf',
    'shapeOf',
  ]);
});
