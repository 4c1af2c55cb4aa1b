import { ApiKeyEntity } from './api-key.entity.js';
import { AttemptEntity } from './attempt.entity.js';
import { AuditEntryEntity } from './audit-entry.entity.js';
import { DefinitionEntity } from './definition.entity.js';
import { EventEntity } from './event.entity.js';
import { FeedEntryEntity } from './feed-entry.entity.js';
import { RunEntity } from './run.entity.js';

/** Every entity of the database. */
export const ENTITIES = [
  RunEntity,
  AttemptEntity,
  EventEntity,
  FeedEntryEntity,
  DefinitionEntity,
  ApiKeyEntity,
  AuditEntryEntity,
];
