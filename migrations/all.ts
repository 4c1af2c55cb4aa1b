import { CreateRuns1795000000001 } from './001-create-runs.js';
import { AddListsDefinitionsKeys1795000000002 } from './002-add-lists-definitions-keys.js';
import { AddTimeBudgets1795000000003 } from './003-add-time-budgets.js';
import { AddWorkerPool1795000000004 } from './004-add-worker-pool.js';
import { ListRunsByState1795000000005 } from './005-list-runs-by-state.js';
import { ListRunsByTwoFields1795000000006 } from './006-list-runs-by-two-fields.js';
import { AddRunLogs1795000000007 } from './007-add-run-logs.js';
import { CountRuns1795000000008 } from './008-count-runs.js';
import { CountDemand1795000000009 } from './009-count-demand.js';
import { KeepTracesOfRuns1795000000010 } from './010-keep-traces-of-runs.js';
import { NoteRestores1795000000011 } from './011-note-restores.js';
import { OrderEventsByCommit1795000000012 } from './012-order-events-by-commit.js';
import { IndexEventsByCommit1795000000013 } from './013-index-events-by-commit.js';
import { IndexLongTexts1795000000014 } from './014-index-long-texts.js';
import { BindKeysToWorkers1795000000015 } from './015-bind-keys-to-workers.js';
import { MeasureRuns1795000000016 } from './016-measure-runs.js';
import { RecordCauses1795000000017 } from './017-record-causes.js';
import { IndexAvoidingRuns1795000000018 } from './018-index-avoiding-runs.js';
import { AuditMoreActions1795000000020 } from './020-audit-more-actions.js';
import { ExtendRuns1795000000021 } from './021-extend-runs.js';
import { RestrictQueue1795000000022 } from './022-restrict-queue.js';
import { AddSecrets1795000000023 } from './023-add-secrets.js';
import { ListRunsByTagAndKey1795000000024 } from './024-list-runs-by-tag-and-key.js';
import { CountDemandByRequirements1795000000025 } from './025-count-demand-by-requirements.js';
import { BindKeysToTags1795000000026 } from './026-bind-keys-to-tags.js';
import { HoldConcurrencySlots1795000000027 } from './027-hold-concurrency-slots.js';

/** Every migration, in order. One that has landed is never edited. */
export const MIGRATIONS = [
  CreateRuns1795000000001,
  AddListsDefinitionsKeys1795000000002,
  AddTimeBudgets1795000000003,
  AddWorkerPool1795000000004,
  ListRunsByState1795000000005,
  ListRunsByTwoFields1795000000006,
  AddRunLogs1795000000007,
  CountRuns1795000000008,
  CountDemand1795000000009,
  KeepTracesOfRuns1795000000010,
  NoteRestores1795000000011,
  OrderEventsByCommit1795000000012,
  IndexEventsByCommit1795000000013,
  IndexLongTexts1795000000014,
  BindKeysToWorkers1795000000015,
  MeasureRuns1795000000016,
  RecordCauses1795000000017,
  IndexAvoidingRuns1795000000018,
  AuditMoreActions1795000000020,
  ExtendRuns1795000000021,
  RestrictQueue1795000000022,
  AddSecrets1795000000023,
  ListRunsByTagAndKey1795000000024,
  CountDemandByRequirements1795000000025,
  BindKeysToTags1795000000026,
  HoldConcurrencySlots1795000000027,
];
