import type { AuditRecord } from '../audit/audit.repository.js';
import { StateCountDelta } from '../counts/run-counts.repository.js';
import type { RunCommand } from '../machine/run-command.js';
import { isInExecution, isTerminal } from '../machine/run-state.js';
import { CHANGING_FIELDS, type ChangingField, type FoundRun, type Run } from '../machine/run.js';
import { isClaimable, timerOf } from '../machine/timers.js';
import { SLOT_MS, type ConcurrencySlot } from '../queue/concurrency-keys.js';
import type { QueueChange } from '../queue/queue.repository.js';
import { shapeOf } from '../scheduling-strategy.js';
import type { RunTimer } from '../storage/run-timers.js';
import { arePlain, type ExecutionChange } from '../storage/run.repository.js';
import type { Change, Changes } from './decide-group.js';
import { endsOf, groupDeltasOf } from './dependents.js';

interface Decided extends Pick<
  Changes,
  'now' | 'created' | 'decided' | 'before' | 'after' | 'batches' | 'dependencies' | 'leavings' | 'fileUses'
> {
  /** Ids of runs with an `elapse` command: their timer is written even if it is unchanged. */
  readonly elapsed: readonly string[];
}

/** What a group writes, by what it has decided. */
export function changesOf({ elapsed, ...group }: Decided): Changes {
  const { created, decided, before, after } = group;
  const entries = decided.flatMap((change) => change.entries);
  const counts = new StateCountDelta();
  counts.create(created.length);
  for (const { before: earlier, run } of decided) counts.move(earlier.state, run.state);
  const deprived = decided.flatMap((change) =>
    isReportOfEnd(change) ? [] : workersThatLose(change.before, change.run),
  );
  const labelled = distinct(
    decided.flatMap(({ command, run }) => (command.type === 'label' ? [run.id] : [])),
  ).flatMap((id) => after.get(id) ?? []);
  return {
    ...group,
    ends: endsOf(group),
    groups: groupDeltasOf(group),
    cleanups: cleanupsOf(group),
    changedFields: changedFieldsOf(before, after),
    entries,
    endedAttempts: decided.flatMap(({ endedAttempt }) => endedAttempt ?? []),
    auditRecords: decided.flatMap(({ command, before: earlier, run }) =>
      auditRecordsOf(command, earlier, run),
    ),
    labelled,
    queue: queueChangeOf(group, labelled),
    executions: executionChangeOf(group),
    timers: timersOf(group, elapsed),
    feedEntries: entries.flatMap(({ runId, index, t }) => {
      const topic = after.get(runId)?.topic;
      return topic ? [{ topic, runId, eventIndex: index, recordedAt: t }] : [];
    }),
    counts,
    freedWorkers: distinct([...pairsOf(group)].flatMap(([earlier, run]) => workersThatLose(earlier, run))),
    deprivedWorkers: distinct(deprived),
  };
}

function cleanupsOf({ before, after, leavings }: Pick<Decided, 'before' | 'after' | 'leavings'>): string[] {
  const left = new Set(leavings.map(({ runId }) => runId));
  return [...pairsOf({ before, after })].flatMap(([earlier, run]) =>
    isTerminal(run.state) && !isTerminal(earlier.state) && (run.hasFiles || left.has(run.id)) ? [run.id] : [],
  );
}

function auditRecordsOf(command: RunCommand, before: Run, after: Run): AuditRecord[] {
  if (command.type !== 'patch' && command.type !== 'label') return [];
  const { keyName } = command;
  if (keyName === null) return [];
  return command.type === 'patch'
    ? [{ action: 'run.patch', keyName, before, after, outputs: command.outputs }]
    : [{ action: 'run.labels', keyName, before, after }];
}

/** The updated runs that exist, before and after the group. */
function* pairsOf({ before, after }: Pick<Changes, 'before' | 'after'>): Iterable<[FoundRun, Run]> {
  for (const run of after.values()) {
    const earlier = before.get(run.id);
    if (earlier) yield [earlier, run];
  }
}

function changedFieldsOf(
  before: ReadonlyMap<string, FoundRun>,
  after: ReadonlyMap<string, Run>,
): ReadonlySet<ChangingField> {
  const fields = new Set<ChangingField>();
  for (const [earlier, run] of pairsOf({ before, after })) {
    for (const field of CHANGING_FIELDS) if (run[field] !== earlier[field]) fields.add(field);
  }
  return fields;
}

function executionChangeOf(group: Pick<Changes, 'before' | 'after'>): ExecutionChange {
  const ended = new Map<string, string>();
  const begun: string[] = [];
  for (const [earlier, run] of pairsOf(group)) {
    const [was, is] = [isInExecution(earlier.state), isInExecution(run.state)];
    const isSame = was && is && isSameExecution(earlier, run);
    if (was && !isSame) ended.set(run.id, earlier.workerId ?? '');
    if (is && !isSame) begun.push(run.id);
  }
  return { ended, begun };
}

/** Whether the row of `executions` stays as it is. */
function isSameExecution(a: Run, b: Run): boolean {
  const isSameTime = a.assignedAt?.getTime() === b.assignedAt?.getTime();
  const isSameWorker = a.workerId === b.workerId && a.attempt === b.attempt;
  return isSameTime && isSameWorker && a.gpuId === b.gpuId && a.gpuIds === b.gpuIds;
}

/** Fields of a claimable run that its row in the queue depends on and that may change. */
const QUEUED = ['priority', 'avoidedWorker', 'ramMb'] as const;

function queueChangeOf(group: Omit<Decided, 'elapsed'>, labelled: readonly Run[]): QueueChange {
  const created: readonly Run[] = group.created.filter(isClaimable);
  const changed: Run[] = [];
  const leaving: Run[] = [];
  const keys = new Map<string, number>();
  const add = ({ concurrencyKey: key }: Run, executing: number): void => {
    if (key !== null) keys.set(key, (keys.get(key) ?? 0) + executing);
  };
  for (const [earlier, run] of pairsOf(group)) {
    const [was, is] = [isClaimable(earlier), isClaimable(run)];
    if (is && (!was || QUEUED.some((field) => earlier[field] !== run[field]))) changed.push(run);
    if (was && !is) leaving.push(run);
    const executing = Number(isInExecution(run.state)) - Number(isInExecution(earlier.state));
    if (executing !== 0) add(run, executing);
  }
  const slots = group.decided.flatMap((change) => slotOf(change, group.now));
  for (const { key } of slots) if (key !== null) keys.set(key, (keys.get(key) ?? 0) + 1);
  const entering = [...created, ...changed];
  for (const run of [...entering, ...leaving]) add(run, 0);
  const isFilledByInsertion = arePlain(group.created);
  const unwritten = isFilledByInsertion ? changed : entering;
  return { entering, isFilledByInsertion, unwritten, leaving, labelled, keys, slots };
}

/** The program of a run that may still be executed, because somebody else than its worker ended the attempt. */
function slotOf({ command, before, run }: Change, now: Date): ConcurrencySlot[] {
  const { id: runId, attempt, concurrencyKey: key, gpuId, assignedAt } = before;
  const [workerId] = workersThatLose(before, run);
  if (workerId === undefined || !leavesContainer(command, workerId)) return [];
  const endsAt = new Date(now.getTime() + SLOT_MS);
  const gpuIds = before.gpuIds ?? (gpuId === null ? null : String(gpuId));
  const held = { ...shapeOf(before), gpuIds };
  return [{ runId, attempt, key, workerId, ...held, assignedAt: assignedAt ?? now, endsAt }];
}

function timersOf(
  { created, before, after }: Omit<Decided, 'elapsed'>,
  elapsed: readonly string[],
): RunTimer[] {
  const ofCreated = created.flatMap((run) => {
    const timer = timerOf(run);
    return timer ? [{ runId: run.id, dueAt: timer.dueAt }] : [];
  });
  const rewritten = new Set(elapsed);
  const ofChanged = [...new Set([...after.keys(), ...rewritten])].flatMap((runId) => {
    const earlier = before.get(runId);
    const run = after.get(runId) ?? earlier;
    if (!earlier || !run) return [];
    const dueAt = timerOf(run)?.dueAt ?? null;
    const isSame = timerOf(earlier)?.dueAt.getTime() === dueAt?.getTime();
    return isSame && !rewritten.has(runId) ? [] : [{ runId, dueAt }];
  });
  return [...ofCreated, ...ofChanged];
}

/** The worker that held the run before a change and does not hold it afterwards. */
function workersThatLose({ state, workerId }: Run, after: Run): string[] {
  if (workerId === null || !isInExecution(state)) return [];
  return isInExecution(after.state) && after.workerId === workerId ? [] : [workerId];
}

/** Whether the worker of an attempt learns of its end by this command. A reclaim comes after the worker timeout. */
function leavesContainer(command: RunCommand, workerId: string): boolean {
  if (command.type !== 'event') return command.type === 'patch' || command.type === 'elapse';
  const { kind } = command.event.effect;
  return (kind === 'CANCELLED' || kind === 'RETRIED') && command.reporter.workerId !== workerId;
}

/** Whether the worker reports the end of its run. */
function isReportOfEnd({ command, before }: Change): boolean {
  if (command.type !== 'event' || command.reporter.workerId !== before.workerId) return false;
  const { kind } = command.event.effect;
  return kind === 'COMPLETED' || kind === 'FAILED';
}

function distinct(ids: readonly string[]): string[] {
  return [...new Set(ids)];
}
