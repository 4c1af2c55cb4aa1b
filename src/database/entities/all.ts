import type { EntityClass } from '../data-source.js';
import * as artifact from './artifact.entity.js';
import * as bulkOperation from './bulk-operation.entity.js';
import * as definition from './definition.entity.js';
import * as feed from './feed.entity.js';
import * as file from './file.entity.js';
import * as group from './group.entity.js';
import * as queue from './queue.entity.js';
import * as runLog from './run-log.entity.js';
import * as run from './run.entity.js';
import * as schedule from './schedule.entity.js';
import * as security from './security.entity.js';
import * as webhook from './webhook.entity.js';
import * as worker from './worker.entity.js';

/** The entities of all tables of the service: the classes of these files. */
export const ENTITIES: readonly EntityClass[] = [
  artifact,
  run,
  queue,
  runLog,
  feed,
  file,
  definition,
  bulkOperation,
  group,
  schedule,
  security,
  webhook,
  worker,
]
  .flatMap((entities): unknown[] => Object.values(entities))
  .filter((value): value is EntityClass => typeof value === 'function');
