import { Injectable } from '@nestjs/common';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { DataSource } from 'typeorm';
import { monotonicMs } from '../../common/monotonic-ms.js';
import { isLasting, reasonOf } from '../../common/errors/domain-error.js';
import type { GroupEntity } from '../../database/entities/group.entity.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import type { Facts } from '../../definitions/templates/template-text.js';
import type { BatchCreation } from '../../runs/journal/command.js';
import { serviceCancel, userCancel } from '../../runs/machine/run-event.js';
import type { LabelChanges } from '../../runs/machine/run.js';
import { newId } from '../../runs/machine/new-id.js';
import type { Dependency } from '../../runs/machine/run.js';
import { hasSources, nameRuns } from '../../runs/options/output-sources.js';
import { eventCommand } from '../../runs/runs.service.js';
import { maxUnstarted } from '../../runs/storage/groups.js';
import { GROUP_LEDGER } from '../group-ledger.js';
import { stopGroup, whyStopped } from '../group-changes.js';
import { GroupRepository } from '../group.repository.js';
import { bodyOfMember, MemberRuns } from './member-runs.js';

/** The owner of what groups submit: it waits in turn with the requests of API keys. */
export const OWNER = { id: 'groups', scopes: new Set(['client'] as const) };

/** Members that are made, or cancelled, together: few, so that claims and requests do not wait long for their commit. */
const MEMBERS_PER_BATCH = 10;
const CANCELLED_PER_BATCH = 100;

/** While half of the members of an array that may be pending are, others are made after so many times as long as the last ones took. */
const REST = 10;
const LONGEST_REST_MS = 500;

/** After this time in milliseconds an array is looked at again whose members wait for those of another one that are not made. */
const LOOK_AGAIN_MS = 1_000;

/** What is stored of an array to make its members. */
export interface ArrayBody {
  readonly run: JsonObject;
  /** Of each member; absent: none has any of its own. */
  readonly inputs?: readonly JsonObject[];
  /** Of all members, under those of `run`. */
  readonly shared?: JsonObject;
  /** What the group waits for, which its members may name as sources. */
  readonly depends_on?: readonly JsonObject[];
  /** Over those of the definition and under those of `run`. */
  readonly labels: LabelChanges | null;
  readonly facts?: Facts;
}

type Creations = readonly BatchCreation[] | { readonly missing: Pick<Dependency, 'parentId' | 'isGroup'> };

/** Makes the members of arrays as they are needed, and cancels those of stopped groups. */
@Injectable()
export class ArrayMembers {
  constructor(
    private readonly dataSource: DataSource,
    private readonly groups: GroupRepository,
    private readonly journal: RunJournal,
    private readonly members: MemberRuns,
  ) {}

  /** Makes or cancels some members. @returns how many */
  async advance(group: GroupEntity): Promise<number> {
    const { id } = group;
    if (group.stopCause !== null) {
      const cancelled = await this.#cancelSome(group);
      await this.groups.settle(id);
      return cancelled;
    }
    const startedAt = monotonicMs();
    const { count, waitMs } = await this.#makeSome(group);
    const hasMany = group.pending > maxUnstarted(group.maxParallel) / 2;
    const restMs = hasMany ? Math.min(REST * (monotonicMs() - startedAt), LONGEST_REST_MS) : 0;
    await this.groups.settle(id, Math.max(waitMs, restMs));
    return count;
  }

  async #cancelSome({ id: groupId, stopCause, reason }: GroupEntity): Promise<number> {
    const open = await this.groups.listOpen(groupId, CANCELLED_PER_BATCH);
    if (open.length === 0) return 0;
    const why = reason ?? 'The group was cancelled';
    const event =
      stopCause === 'user'
        ? userCancel(why)
        : serviceCancel(stopCause === 'max_failed' ? 'max_failed' : 'group', why, { group_id: groupId });
    const command = eventCommand(event, {});
    await this.journal.carryOut(
      {
        ledger: GROUP_LEDGER,
        record: { kind: 'stop', groupId },
        changes: open.map((runId) => ({ runId, command })),
      },
      OWNER,
    );
    return open.length;
  }

  async #makeSome(group: GroupEntity): Promise<{ readonly count: number; readonly waitMs: number }> {
    const { id: groupId, created: from, size, pending, maxParallel } = group;
    const until = Math.min(size, from + MEMBERS_PER_BATCH, from + maxUnstarted(maxParallel) - pending);
    if (until <= from) return { count: 0, waitMs: 0 };
    let creations: Creations;
    try {
      creations = await this.#creations(group, from, until);
    } catch (error) {
      if (!isLasting(error)) throw error;
      await stopGroup(
        this.dataSource,
        groupId,
        'inputs',
        `Member ${from} or a later one cannot be made: ${reasonOf(error)}`,
      );
      return { count: 0, waitMs: 0 };
    }
    if ('missing' in creations) {
      if (group.pending + group.assigned + group.running > 0) return { count: 0, waitMs: LOOK_AGAIN_MS };
      await stopGroup(this.dataSource, groupId, 'dependency', whyStopped(creations.missing));
      return { count: 0, waitMs: 0 };
    }
    if (creations.length === 0) return { count: 0, waitMs: LOOK_AGAIN_MS };
    await this.journal.carryOut(
      { ledger: GROUP_LEDGER, record: { kind: 'members', groupId, from }, creations, isWithClaims: true },
      OWNER,
    );
    return { count: creations.length, waitMs: 0 };
  }

  /**
   * The members with these indexes, as far as those of other arrays are there for which they wait; or an array that has ended
   * without the one for which the first waits.
   */
  async #creations(group: GroupEntity, from: number, until: number): Promise<Creations> {
    const body = arrayBodyOf(group);
    const awaited = await Promise.all(
      (group.sameIndex ?? []).map(async ({ group: id, when }) => ({
        id,
        when,
        // Read first: an array that is open may make its members in between.
        isOpen: (await this.groups.find(id))?.state === 'open',
        runs: await this.groups.findAt(id, from, until - 1),
      })),
    );
    const creations: BatchCreation[] = [];
    const { scheduleId, scheduleTime, size } = group;
    const schedule =
      scheduleId !== null && scheduleTime !== null ? { id: scheduleId, time: scheduleTime } : undefined;
    for (let index = from; index < until; index += 1) {
      const parents = awaited.map(({ id, when, isOpen, runs }) => ({
        id,
        when,
        isOpen,
        run: runs.get(index),
      }));
      const lacking = parents.filter(({ run }) => run === undefined);
      const missing = lacking.find(({ isOpen }) => !isOpen);
      if (missing && index === from) return { missing: { parentId: missing.id, isGroup: true } };
      if (lacking.length > 0) return creations;
      const own = bodyOfMember(body.run, body.inputs?.[index]);
      const runOf = new Map(parents.map(({ id, run }) => [id, run ?? '']));
      const { inputs } = own;
      const named = hasSources(inputs) || hasSources(body.shared);
      const bound =
        isJsonObject(inputs) && hasSources(inputs)
          ? {
              ...own,
              inputs: nameRuns(inputs, 'group', (id) => (typeof id === 'string' ? runOf.get(id) : undefined)),
            }
          : own;
      const dependsOn = [
        ...(named ? (body.depends_on ?? []) : []),
        ...parents.map(({ run = '', when }) => ({ run, when })),
      ];
      const fresh = await this.members.make(
        { ...bound, ...(dependsOn.length > 0 && { depends_on: [...dependsOn] }) },
        newId(),
        { ref: null, array: { index, size } },
        { group, labels: body.labels, shared: body.shared ?? {}, schedule, facts: body.facts ?? {} },
      );
      creations.push({ fresh });
    }
    return creations;
  }
}

/** What is stored of an array. @throws Error for a group that is none */
export function arrayBodyOf({ id, arrayBody }: Pick<GroupEntity, 'id' | 'arrayBody'>): ArrayBody {
  const run = arrayBody?.['run'];
  if (arrayBody === null || !isJsonObject(run)) throw new Error(`group ${id} is no array`);
  // It was stored as one.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return arrayBody as unknown as ArrayBody;
}
