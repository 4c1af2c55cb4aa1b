import { AttemptEntity } from './attempt.entity.js';
import { EventEntity } from './event.entity.js';
import { FeedEntryEntity } from './feed-entry.entity.js';
import { RunEntity } from './run.entity.js';

/** Every entity of the database. */
export const ENTITIES = [RunEntity, AttemptEntity, EventEntity, FeedEntryEntity];
