import { ApiKeyEntity } from './api-key.entity.js';
import { AttemptEntity } from './attempt.entity.js';
import { AuditEntryEntity } from './audit-entry.entity.js';
import { BulkOperationEntity } from './bulk-operation.entity.js';
import { ConcurrencyKeyEntity, ConcurrencySlotEntity } from './concurrency.entity.js';
import { DatabaseOriginEntity } from './database-origin.entity.js';
import { DefinitionEntity } from './definition.entity.js';
import { EventEntity } from './event.entity.js';
import { ExecutionEntity } from './execution.entity.js';
import { FeedEpochEntity, FeedEpochHeadEntity, FeedEntryEntity, FeedTopicEntity } from './feed.entity.js';
import { IdempotencyKeyEntity } from './idempotency-key.entity.js';
import { LaneEntity, QueueEntryEntity, RunTimerEntity } from './queue.entity.js';
import { RunCountsEntity } from './run-counts.entity.js';
import { RunLogEntity, RunLogRemovalEntity, RunLogRowEntity } from './run-log.entity.js';
import { RunTermEntity } from './run-term.entity.js';
import { RunEntity } from './run.entity.js';
import { SecretEntity } from './secret.entity.js';
import {
  WorkerDrainEntity,
  WorkerPoolEntity,
  WorkerPoolEpochEntity,
  WorkerDescriptionEntity,
} from './worker.entity.js';

/** The entities of all tables of the service. */
export const ENTITIES = [
  RunEntity,
  RunTermEntity,
  AttemptEntity,
  EventEntity,
  ExecutionEntity,
  QueueEntryEntity,
  LaneEntity,
  RunTimerEntity,
  ConcurrencyKeyEntity,
  ConcurrencySlotEntity,
  RunCountsEntity,
  RunLogEntity,
  RunLogRowEntity,
  RunLogRemovalEntity,
  FeedTopicEntity,
  FeedEntryEntity,
  FeedEpochEntity,
  FeedEpochHeadEntity,
  DefinitionEntity,
  IdempotencyKeyEntity,
  BulkOperationEntity,
  ApiKeyEntity,
  AuditEntryEntity,
  SecretEntity,
  WorkerDrainEntity,
  WorkerPoolEntity,
  WorkerDescriptionEntity,
  WorkerPoolEpochEntity,
  DatabaseOriginEntity,
];
