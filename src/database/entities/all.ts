import { ApiKeyEntity } from './api-key.entity.js';
import { AttemptEntity } from './attempt.entity.js';
import { AuditEntryEntity } from './audit-entry.entity.js';
import { DatabaseOriginEntity } from './database-origin.entity.js';
import { DefinitionEntity } from './definition.entity.js';
import { EventEntity } from './event.entity.js';
import { FeedEpochEntity, FeedEpochStartEntity, FeedEntryEntity, FeedTopicEntity } from './feed.entity.js';
import { IdempotencyKeyEntity } from './idempotency-key.entity.js';
import { QueueEntryEntity, RunDeadlineEntity } from './queue.entity.js';
import {
  ConcurrencyKeyEntity,
  ConcurrencySlotEntity,
  RestrictedEntryEntity,
  RunRequirementsEntity,
} from './restricted-queue.entity.js';
import { RunCountsEntity } from './run-counts.entity.js';
import {
  RequirementDemandChangeEntity,
  RequirementDemandEntity,
  RunDemandChangeEntity,
  RunDemandEntity,
  RunDemandSumsEntity,
} from './run-demand.entity.js';
import { RunLogEntity, RunLogRemovalEntity, RunLogRowEntity } from './run-log.entity.js';
import { RunTagEntity } from './run-tag.entity.js';
import { RunEntity } from './run.entity.js';
import { SecretEntity } from './secret.entity.js';
import {
  WorkerDrainEntity,
  WorkerPoolEntity,
  WorkerPoolEpochEntity,
  WorkerPoolWordsEntity,
} from './worker.entity.js';

/** The entities of all tables of the service. */
export const ENTITIES = [
  RunEntity,
  RunTagEntity,
  AttemptEntity,
  EventEntity,
  QueueEntryEntity,
  RunDeadlineEntity,
  RestrictedEntryEntity,
  RunRequirementsEntity,
  ConcurrencyKeyEntity,
  ConcurrencySlotEntity,
  RunCountsEntity,
  RunDemandEntity,
  RunDemandChangeEntity,
  RunDemandSumsEntity,
  RequirementDemandEntity,
  RequirementDemandChangeEntity,
  RunLogEntity,
  RunLogRowEntity,
  RunLogRemovalEntity,
  FeedTopicEntity,
  FeedEntryEntity,
  FeedEpochEntity,
  FeedEpochStartEntity,
  DefinitionEntity,
  IdempotencyKeyEntity,
  ApiKeyEntity,
  AuditEntryEntity,
  SecretEntity,
  WorkerDrainEntity,
  WorkerPoolEntity,
  WorkerPoolWordsEntity,
  WorkerPoolEpochEntity,
  DatabaseOriginEntity,
];
