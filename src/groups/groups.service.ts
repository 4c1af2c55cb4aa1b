import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Caller } from '../auth/access.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { JobScheduler } from '../common/scheduling/job-scheduler.js';
import type { GroupEntity } from '../database/entities/group.entity.js';
import { violatesKey } from '../database/failover/unavailable.js';
import type { Page } from '../database/sql/read-page.js';
import { toAwaitedEndDto } from '../runs/dto/dependency.dto.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import { isRunId } from '../runs/machine/new-id.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import { IdempotencyMismatch } from '../runs/run.errors.js';
import { readLabels } from '../runs/reading/run-filter.js';
import { listAwaited } from '../runs/storage/groups.js';
import { toGroupDto, type GroupDto, type GroupGraphDto, type GroupNodeDto } from './dto/group.dto.js';
import type { CreateGroupDto, ListGroupsQueryDto } from './dto/group-requests.dto.js';
import { GroupRepository, type FoundNode } from './group.repository.js';
import { batchOf, GroupPlanner, previewOf, type GroupOrigin } from './members/group-planner.js';
import { GROUP_MEMBERS } from './members/groups.job.js';

const DEFAULT_LIMIT = 50;

/** Members that a graph shows. */
const SHOWN_MEMBERS = 1_000;

/** The use cases of groups. */
@Injectable()
export class GroupsService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly groups: GroupRepository,
    private readonly planner: GroupPlanner,
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
    return this.#show(await this.groups.get(id));
  }

  /** The newest first. @throws InvalidRequest when there is no group `after` */
  async list({ limit = DEFAULT_LIMIT, after, ...filter }: ListGroupsQueryDto): Promise<Page<GroupDto>> {
    const { label = [], ...columns } = filter;
    const place = after !== undefined && isRunId(after) ? await this.groups.find(after) : null;
    if (after !== undefined && !place)
      throw new InvalidRequest(VALIDATION_FAILED, ['after must be the id of a group']);
    const found = await this.groups.list(limit + 1, place, { ...columns, terms: readLabels(label) });
    const items = await Promise.all(found.slice(0, limit).map((group) => this.#show(group)));
    return { items, hasMore: found.length > limit };
  }

  /** The first members and what they wait for. @throws GroupNotFound */
  async graph(id: string): Promise<GroupGraphDto> {
    await this.groups.get(id);
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
