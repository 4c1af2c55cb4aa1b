import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Caller } from '../auth/access.js';
import { recordChange, type Author } from '../auth/audit-log.js';
import { JobScheduler } from '../common/scheduling/job-scheduler.js';
import type { GroupEntity } from '../database/entities/group.entity.js';
import { violatesKey } from '../database/failover/unavailable.js';
import type { Page } from '../database/sql/read-page.js';
import { toAwaitedEndDto } from '../runs/dto/dependency.dto.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import type { BatchChange } from '../runs/journal/command.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import { isRunId } from '../runs/machine/new-id.js';
import { IdempotencyMismatch } from '../runs/run.errors.js';
import { listAwaited } from '../runs/storage/groups.js';
import { toGroupDto, type GroupDto, type GroupGraphDto, type GroupNodeDto } from './dto/group.dto.js';
import type { CreateGroupDto, ListGroupsQueryDto } from './dto/group-requests.dto.js';
import { GROUP_LEDGER } from './group-ledger.js';
import { stopGroup } from './group-changes.js';
import { GroupRepository, type FoundNode } from './group.repository.js';
import { GroupNotFound, GroupRejected } from './groups.errors.js';
import { ArrayMembers } from './members/array-members.js';
import { batchOf, GroupPlanner, previewOf, type GroupOrigin } from './members/group-planner.js';
import { DEPENDENCIES, GROUP_MEMBERS } from './members/groups.job.js';
import { planRetry } from './members/retry-plan.js';

const DEFAULT_LIMIT = 50;

/** Members that a graph shows. */
const SHOWN_MEMBERS = 1_000;

/** Pages of a cancelled group that the request itself cancels. */
const CANCELLED_PAGES = 3;

/** Members that are opened again together. */
const RETRIED_PER_BATCH = 1_000;

/** The use cases of groups. */
@Injectable()
export class GroupsService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly groups: GroupRepository,
    private readonly planner: GroupPlanner,
    private readonly arrays: ArrayMembers,
    private readonly journal: RunJournal,
    private readonly scheduler: JobScheduler,
  ) {}

  /**
   * Makes a group and its runs, all or none; those of an array later. A repeated request finds the earlier group.
   * @throws InvalidRequest with a line for each problem, IdempotencyMismatch, JournalOverloaded, TooManyWaiting
   */
  async create(
    body: CreateGroupDto,
    origin: GroupOrigin & { readonly caller: Caller },
    isDryRun = false,
  ): Promise<{ readonly group: GroupDto; readonly replayed: boolean }> {
    const { caller, idempotency } = origin;
    const earlier = idempotency && !isDryRun ? await this.#replay(idempotency) : null;
    if (earlier) return { group: earlier, replayed: true };
    const planned = await this.planner.plan(body, origin);
    if (isDryRun) return { group: previewOf(planned), replayed: false };
    try {
      await this.journal.carryOut(batchOf(planned), caller);
    } catch (error) {
      const replay = idempotency && violatesKey(error) ? await this.#replay(idempotency) : null;
      if (!replay) throw error;
      return { group: replay, replayed: true };
    }
    this.scheduler.runWithin(GROUP_MEMBERS, 0);
    return { group: await this.get(planned.group.id), replayed: false };
  }

  /** @throws GroupNotFound */
  async get(id: string): Promise<GroupDto> {
    return this.#show(await this.require(id));
  }

  /** The newest first. */
  async list({ limit = DEFAULT_LIMIT, after, ...filter }: ListGroupsQueryDto): Promise<Page<GroupDto>> {
    const { state = null, name = null, schedule = null } = filter;
    const place = after === undefined ? null : (await this.require(after)).id;
    const found = await this.groups.list(limit + 1, place, { state, name, schedule });
    const items = await Promise.all(found.slice(0, limit).map((group) => this.#show(group)));
    return { items, hasMore: found.length > limit };
  }

  /** The first members and what they wait for. @throws GroupNotFound */
  async graph(id: string): Promise<GroupGraphDto> {
    await this.require(id);
    const found = await this.groups.listMembers(id, null, SHOWN_MEMBERS + 1);
    const shown = found.slice(0, SHOWN_MEMBERS);
    const ids = shown.map((member) => member.id);
    const all = ids.length === 0 ? [] : await this.groups.listEdges(ids);
    const edges = all.flatMap((edge) =>
      edge.parentId === null ? [] : [{ ...edge, parentId: edge.parentId }],
    );
    const own = new Set(ids);
    const others = [...new Set(edges.map(({ parentId }) => parentId))].filter((parent) => !own.has(parent));
    const nodes = await this.groups.listNodes([...ids, ...others]);
    const known = new Map(nodes.map((node) => [node.id, node]));
    const removed = edges
      .filter(({ parentId }) => !known.has(parentId))
      .map(({ parentId, isGroup }): [string, FoundNode] => [
        parentId,
        { id: parentId, kind: isGroup ? 'group' : 'run', ref: null, index: null, name: null, state: null },
      ]);
    return {
      nodes: [...nodes, ...new Map(removed).values()]
        .map(({ id: nodeId, ...node }): GroupNodeDto => ({ id: nodeId, ...node, is_member: own.has(nodeId) }))
        .toSorted((a, b) => Number(b.is_member) - Number(a.is_member) || (a.id < b.id ? -1 : 1)),
      edges: edges.map(({ child, parentId, need, outcome }) => ({
        from: parentId,
        to: child,
        when: need,
        state: outcome ?? 'open',
      })),
      has_more: found.length > SHOWN_MEMBERS,
    };
  }

  /** Cancels the members that have not ended; no more are made. @throws GroupNotFound, GroupRejected */
  async cancel(id: string, reason: string | undefined, by: Author): Promise<GroupDto> {
    await this.require(id);
    const stopped = await this.dataSource.transaction(async (manager) => {
      const group = await stopGroup(manager, id, 'user', reason ?? 'Cancelled by user');
      if (group)
        await recordChange(manager, by, {
          action: 'group.cancel',
          subject: id,
          before: {},
          after: { reason },
        });
      return group;
    });
    if (!stopped) throw new GroupRejected(`Group '${id}' has ended, or is being cancelled`);
    for (let page = 0; page < CANCELLED_PAGES; page += 1)
      if ((await this.arrays.advance(stopped)) === 0) break;
    this.scheduler.runWithin(GROUP_MEMBERS, 0);
    this.scheduler.runWithin(DEPENDENCIES, 0);
    return this.get(id);
  }

  /** Opens members again. @throws GroupNotFound, GroupRejected if there is none */
  async retry(id: string, only: 'failed' | 'all', caller: Caller): Promise<GroupDto> {
    const group = await this.require(id);
    const makesMore =
      group.created < group.size && group.stopCause !== null && !(await this.groups.isBroken(id));
    let isChanged = false;
    // As long as members of an array have FAILED, it may be stopped again, which cancels the others.
    for (const haveFailed of group.arrayBody === null ? [null] : [true, false]) {
      let after: string | null = null;
      for (;;) {
        const found = await this.groups.listMembers(id, after, RETRIED_PER_BATCH, haveFailed);
        const edges = found.length === 0 ? [] : await this.groups.listEdges(found.map((one) => one.id));
        const { waits, edges: reopened } = planRetry(found, edges, only);
        const changes = found.flatMap(({ id: runId, state }): BatchChange[] => {
          const waitsFor = waits.get(runId);
          if (waitsFor === undefined) return [];
          return [{ runId, command: { type: 'reopen', waitsFor, sender: caller.keyId }, onlyIn: [state] }];
        });
        if (changes.length > 0 || (makesMore && !isChanged)) {
          const seen = edges.filter(({ child }) => waits.has(child));
          const record = { kind: 'retry', groupId: id, reopened, seen } as const;
          const isDone = await this.journal.carryOut({ ledger: GROUP_LEDGER, record, changes }, caller);
          if (!isDone) continue;
          isChanged = true;
        }
        const last = found.at(-1);
        if (last === undefined || found.length < RETRIED_PER_BATCH) break;
        after = last.id;
      }
    }
    if (!isChanged) throw new GroupRejected(`Group '${id}' has no members to be tried again`);
    await recordChange(this.dataSource, caller, {
      action: 'group.retry',
      subject: id,
      before: {},
      after: { only },
    });
    this.scheduler.runWithin(GROUP_MEMBERS, 0);
    return this.get(id);
  }

  /** @throws GroupNotFound */
  async require(id: string): Promise<GroupEntity> {
    const found = isRunId(id) ? await this.groups.find(id) : null;
    if (!found) throw new GroupNotFound(id);
    return found;
  }

  /** @throws IdempotencyMismatch */
  async #replay({ scope, requestHash }: Idempotency): Promise<GroupDto | null> {
    const found = await this.groups.findByKey(scope);
    if (found && found.requestHash !== requestHash) throw new IdempotencyMismatch();
    return found && this.#show(found);
  }

  async #show(group: GroupEntity): Promise<GroupDto> {
    const [failed, awaited] = await Promise.all([
      group.failed > 0 ? this.groups.listFailed(group.id) : [],
      group.waitsFor !== null ? listAwaited(this.dataSource, { group: group.id }) : [],
    ]);
    return toGroupDto(group, { failed, waitingFor: awaited.map(toAwaitedEndDto) });
  }
}
