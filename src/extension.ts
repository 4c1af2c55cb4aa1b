/** What modules of other packages may import from the service, as `longshore/extension`. */
export { AllowScopes, Public, type Caller } from './auth/access.js';
export type { Scope } from './config/key-settings.js';
export { CurrentCaller } from './auth/api-key.guard.js';
export { DefinitionEntity } from './database/entities/definition.entity.js';
export { FeedEntryEntity } from './database/entities/feed.entity.js';
export { AttemptEntity, EventEntity, RunEntity } from './database/entities/run.entity.js';
export { ApiKeyEntity, AuditEntryEntity } from './database/entities/security.entity.js';
export { DefinitionNotFound, InvalidInputs } from './definitions/definitions.errors.js';
export {
  DomainError,
  InvalidRequest,
  NotFound,
  type DomainErrorOptions,
  type ErrorKind,
} from './common/errors/domain-error.js';
export { ScheduledJob, type JobOptions, type JobRun } from './common/scheduling/scheduled-job.js';
export type { OpRunDto } from './runs/dto/op-run.dto.js';
export type { CommittedEvent } from './runs/events/committed-event.js';
export { RunEvents, type EventPage } from './runs/run-events.js';
export { RunReader } from './runs/reading/run.reader.js';
export { IdempotencyMismatch, RunNotFound, RunRejected } from './runs/run.errors.js';
export { RunsService, type AnsweredRun, type RunRequest } from './runs/runs.service.js';
export {
  needsOf,
  shapeOf,
  type Assignment,
  type CandidateQuery,
  type Choice,
  type ChoiceContext,
  type Claimant,
  type ClaimingWorker,
  type Gpu,
  type HeldRun,
  type Needs,
  type Obstacle,
  type QueuedRun,
  type Reservation,
  type SchedulingStrategy,
  type Shape,
} from './runs/scheduling-strategy.js';
