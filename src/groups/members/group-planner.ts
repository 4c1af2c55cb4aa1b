import { setImmediate as nextTurn } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import { type JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { Caller } from '../../auth/access.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { Problems, VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { currentTime } from '../../database/sql/sql.js';
import { readDependencies } from '../../runs/dto/dependency.dto.js';
import type { Idempotency } from '../../runs/idempotency/idempotency.repository.js';
import type { BatchChange, BatchCreation } from '../../runs/journal/command.js';
import type { Facts } from '../../definitions/templates/template-text.js';
import {
  areTooMany,
  MAX_LABELS,
  mergeLabels,
  type AwaitedTime,
  type Dependency,
  type LabelChanges,
} from '../../runs/machine/run.js';
import { newId } from '../../runs/machine/new-id.js';
import { hasSources } from '../../runs/options/output-sources.js';
import { toGroupDto, type GroupDto } from '../dto/group.dto.js';
import type { ArrayDto, CreateGroupDto } from '../dto/group-requests.dto.js';
import { GROUP_LEDGER } from '../group-ledger.js';
import { type NewGroup } from '../group-changes.js';
import { GroupRepository } from '../group.repository.js';
import type { ArrayBody } from './array-members.js';
import { planMembers } from './group-plan.js';
import { bodyOfMember, problemsOf, MemberRuns, type MemberContext } from './member-runs.js';

/** Entries of the inputs of an array that are checked at once; other requests go on between. */
const CHECKED_AT_ONCE = 100;

/** Who makes a group, and for what. */
export interface GroupOrigin {
  /** Undefined: the service itself. */
  readonly caller?: Caller | undefined;
  readonly trace?: TraceContext | null;
  readonly idempotency?: Idempotency | undefined;
  readonly schedule?: { readonly id: string; readonly time: string } | undefined;
  /** What texts may refer to beside what members have. */
  readonly facts?: Facts;
  /** Labels under those of the group. */
  readonly labels?: LabelChanges | null | undefined;
}

/** A group that can be made, with the runs that are made with it. */
export interface PlannedGroup {
  readonly group: NewGroup;
  readonly creations: readonly BatchCreation[];
  readonly dependsOn: readonly Dependency[];
  /** Times of schedules for whose runs and groups an array waits; undefined: none. */
  readonly awaitedTimes?: readonly AwaitedTime[];
}

/** Makes groups of bodies, without storing them. */
@Injectable()
export class GroupPlanner {
  constructor(
    private readonly dataSource: DataSource,
    private readonly groups: GroupRepository,
    private readonly members: MemberRuns,
  ) {}

  /** What would be made of a body. @throws InvalidRequest with a line for each problem */
  async plan(body: CreateGroupDto, origin: GroupOrigin): Promise<PlannedGroup> {
    const { runs, array, depends_on: dependsOn = [], max_failed: maxFailed, inputs: shared = {} } = body;
    const problems = new Problems();
    if ((runs === undefined) === (array === undefined))
      problems.add('exactly one of runs and array must be given');
    if (runs && dependsOn.length > 0)
      problems.add('depends_on must be absent without an array: each of runs has its own');
    if (runs && maxFailed !== undefined) problems.add('max_failed must be absent without an array');
    if (areTooMany(mergeLabels(body.labels))) problems.add(`labels must have at most ${MAX_LABELS} entries`);
    problems.throwIfAny();
    const { caller, schedule } = origin;
    const now = await currentTime(this.dataSource);
    const labels = mergeLabels(origin.labels, body.labels);
    const group: NewGroup = {
      id: newId(),
      name: body.name ?? null,
      labels,
      onFailure: body.on_failure ?? 'cancel_dependents',
      maxParallel: body.max_parallel ?? null,
      maxFailed: maxFailed ?? null,
      size: runs?.length ?? sizeOf(array),
      arrayBody: null,
      sameIndex: null,
      scheduleId: schedule?.id ?? null,
      scheduleTime: schedule?.time ?? null,
      idempotencyKey: origin.idempotency?.scope ?? null,
      requestHash: origin.idempotency?.requestHash ?? null,
      createdBy: caller?.keyId ?? null,
      createdByName: caller?.name ?? null,
      createdAt: now,
      updatedAt: now,
      dueAt: null,
    };
    const context = { ...origin, group, labels: { ...origin.labels, ...body.labels }, shared };
    const untaken = await this.members.untaken(runs ?? (array ? [array.run] : []), shared);
    if (untaken.length > 0)
      throw new InvalidRequest(
        VALIDATION_FAILED,
        untaken.map((name) => `inputs.${name} is not an input of any member`),
      );
    if (runs) return { group, creations: await this.#planRuns(runs, context), dependsOn: [] };
    if (!array) throw new Error('a group has neither runs nor an array');
    return this.#planArray(array, dependsOn, context);
  }

  async #planRuns(runs: readonly JsonObject[], context: MemberContext): Promise<BatchCreation[]> {
    const planned = planMembers(runs, newId);
    if ('problems' in planned) throw new InvalidRequest(VALIDATION_FAILED, planned.problems);
    const problems = new Problems();
    const creations: BatchCreation[] = [];
    for (const { ref, id, at, body } of planned.members) {
      try {
        await this.members.check(body, context, false);
        creations.push({ fresh: await this.members.make(body, id, { ref, array: null }, context) });
      } catch (error) {
        for (const line of problemsOf(error, `runs[${at}]`)) problems.add(line);
      }
    }
    problems.throwIfAny();
    const own = new Set(creations.map(({ fresh }) => fresh.id));
    await this.checkKnown(
      creations.flatMap(({ fresh }) => fresh.dependsOn ?? []).filter(({ parentId }) => !own.has(parentId)),
    );
    return creations;
  }

  async #planArray(
    { run, inputs, size }: ArrayDto,
    asked: NonNullable<CreateGroupDto['depends_on']>,
    context: MemberContext & { readonly group: NewGroup },
  ): Promise<PlannedGroup> {
    if ((inputs === undefined) === (size === undefined))
      throw new InvalidRequest(VALIDATION_FAILED, ['array: exactly one of size and inputs must be given']);
    const sameIndex = asked.filter(({ type }) => type === 'same_index');
    const { group } = context;
    await this.#checkSameIndex(sameIndex, group.size);
    const others = asked.filter(({ type }) => type !== 'same_index');
    const dependsOn = readDependencies(others);
    await this.checkKnown(dependsOn);
    const problems = new Problems();
    const all = [...others, ...sameIndex].map(({ run: parent, group: parentGroup, when }) => ({
      ...(parent !== undefined && { run: parent }),
      ...(parentGroup !== undefined && { group: parentGroup }),
      ...(when !== undefined && { when }),
    }));
    const check = async (own: JsonObject | undefined, index: number): Promise<readonly string[]> => {
      const body = bodyOfMember(run, own);
      const member = hasSources(body['inputs']) ? { ...body, depends_on: all } : body;
      try {
        if (index === 0) await this.members.check(body, context, true);
        await this.members.make(member, newId(), { ref: null, array: { index, size: group.size } }, context);
        return [];
      } catch (error) {
        return problemsOf(error, inputs ? `array.inputs[${index}]` : 'array.run');
      }
    };
    const entries = inputs ?? [undefined];
    for (let from = 0; from < entries.length && !problems.isFull; from += CHECKED_AT_ONCE) {
      const some = entries.slice(from, from + CHECKED_AT_ONCE);
      const found = await Promise.all(some.map((own, n) => check(own, from + n)));
      for (const line of found.flat()) problems.add(line);
      await nextTurn();
    }
    problems.throwIfAny();
    const { facts, labels } = context;
    const body: ArrayBody = {
      run,
      shared: context.shared,
      labels,
      ...(inputs && { inputs }),
      ...(others.length > 0 && { depends_on: all.slice(0, others.length) }),
      ...(facts && { facts }),
    };
    const stored = {
      ...group,
      arrayBody: JSON.parse(stringifyJson(body)),
      sameIndex:
        sameIndex.length === 0
          ? null
          : sameIndex.map(({ group: id = '', when = 'completed' }) => ({ group: id, when })),
      dueAt: group.createdAt,
    };
    return { group: stored, creations: [], dependsOn };
  }

  async #checkSameIndex(asked: NonNullable<CreateGroupDto['depends_on']>, size: number): Promise<void> {
    const problems = new Problems();
    for (const { group: id } of asked) {
      const group = id === undefined ? null : await this.groups.find(id);
      if (!group)
        problems.add(
          `depends_on: same_index needs a group${id === undefined ? '' : `, and there is no '${id}'`}`,
        );
      else if (group.arrayBody === null || group.size !== size)
        problems.add(`depends_on: group '${group.id}' is no array of the same size`);
    }
    problems.throwIfAny();
  }

  /** @throws InvalidRequest with a line for each that does not exist */
  async checkKnown(dependencies: readonly Dependency[]): Promise<void> {
    const known = await this.groups.known(dependencies);
    const problems = new Problems();
    for (const { parentId, isGroup } of dependencies) {
      const kind = isGroup ? 'group' : 'run';
      if (!known.has(`${kind} ${parentId}`)) problems.add(`depends_on: there is no ${kind} '${parentId}'`);
    }
    problems.throwIfAny();
  }
}

/** What the journal carries out to make a group. */
export function batchOf({ group, creations, dependsOn, awaitedTimes = [] }: PlannedGroup) {
  return {
    ledger: GROUP_LEDGER,
    record: { kind: 'create', group, dependsOn, awaitedTimes } as const,
    creations,
    changes: dependsOn.flatMap(({ parentId: runId, isGroup }): BatchChange[] =>
      isGroup ? [] : [{ runId, command: { type: 'depend', dependents: 1 } }],
    ),
  };
}

function sizeOf(array: ArrayDto | undefined): number {
  return array?.inputs?.length ?? array?.size ?? 1;
}

/** The group as it would be made. */
export function previewOf({ group, creations }: PlannedGroup): GroupDto {
  const numbers = { assigned: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };
  return toGroupDto(
    {
      ...group,
      ...numbers,
      endedAt: null,
      state: 'open',
      stopCause: null,
      reason: null,
      created: creations.length,
      pending: creations.length,
      waitsFor: null,
      dependents: 0,
      endings: 1,
      endOrder: null,
    },
    { failed: [], waitingFor: [] },
  );
}
