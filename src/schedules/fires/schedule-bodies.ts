import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Caller } from '../../auth/access.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { readItem } from '../../common/http/validation/bulk-items.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import type { ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { RunBodies } from '../../definitions/run-bodies.js';
import { CreateGroupDto } from '../../groups/dto/group-requests.dto.js';
import { GroupPlanner, type PlannedGroup } from '../../groups/members/group-planner.js';
import { newId } from '../../runs/machine/new-id.js';
import type { AwaitedTime, NewRun } from '../../runs/machine/run.js';
import { sourceProblems } from '../../runs/options/output-sources.js';
import { RunsService } from '../../runs/runs.service.js';
import { AwaitedTimes } from '../awaited/awaited-times.js';
import { splitBodies } from '../awaited/schedule-entries.js';
import { factsOf, type Timing } from '../schedule-times.js';

/** What is made for a time. */
export type Made = { readonly run: NewRun } | { readonly group: PlannedGroup };

/** What a schedule makes: of `run` and `group` one is not null. */
export type ScheduleBody = Pick<ScheduleEntity, 'id' | 'run' | 'group' | 'labels'> & Timing;

/** What texts of its runs may refer to beside inputs. */
const FACTS: ReadonlySet<string> = new Set([
  'run.id',
  'run.name',
  'schedule.time',
  'schedule.date',
  'schedule.previous',
  'schedule.next',
]);

/** Runs that one commit makes for several times, at most; those of one group are made by one commit. */
const RUNS_PER_COMMIT = 100;

/** Makes runs and groups of the bodies of schedules, without storing them. */
@Injectable()
export class ScheduleBodies {
  constructor(
    private readonly bodies: RunBodies,
    private readonly runs: RunsService,
    private readonly groups: GroupPlanner,
    private readonly awaited: AwaitedTimes,
  ) {}

  /** What is to be made for a time. @throws DomainError if there can be nothing */
  async make(schedule: ScheduleBody, at: Date, caller?: Caller): Promise<Made> {
    const { id, labels } = schedule;
    const split = splitBodies(schedule);
    const { run, group, own, ofMembers } = split;
    const timesOf = await this.awaited.timesOf(split, schedule, at);
    const facts = factsOf(schedule, at);
    const origin = { caller, schedule: { id, time: facts['schedule.time'] ?? '' } };
    if (group !== null) {
      const planned = await this.groups.plan(readItem(CreateGroupDto, group), { ...origin, facts, labels });
      const creations = planned.creations.map(({ fresh }) => ({
        fresh: withTimes(fresh, timesOf(ofMembers.get(fresh.groupRef ?? '') ?? [])),
      }));
      return { group: { ...planned, creations, awaitedTimes: timesOf(own) } };
    }
    if (run === null) throw new Error(`schedule ${id} has neither a run nor a group`);
    const request = await this.bodies.request(run, { facts: { ...facts, 'run.id': newId() }, labels });
    const fresh = this.runs.newRun({ ...request, schedule: origin.schedule }, { caller });
    if (fresh.hasFiles) await this.runs.checkFiles(fresh, caller);
    const { dependsOn = [] } = fresh;
    await this.groups.checkKnown(dependsOn);
    const problems = own.length > 0 ? sourceProblems(fresh.inputs, dependsOn) : [];
    if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
    return { run: withTimes(fresh, timesOf(own)) };
  }

  /** Refuses a body of which nothing can be made as it is meant. @param at a time @throws DomainError */
  async check(schedule: ScheduleBody, at: Date, caller: Caller): Promise<void> {
    const { run } = splitBodies(schedule);
    if (run !== null) await this.bodies.check(run, FACTS);
    await this.make(schedule, at, caller);
  }

  /** Refuses a schedule that waits for unknown ones, or in a circle. @throws InvalidRequest */
  checkNamed(manager: EntityManager, schedule: Pick<ScheduleBody, 'id' | 'run' | 'group'>): Promise<void> {
    return this.awaited.check(manager, schedule);
  }
}

function withTimes(fresh: NewRun, awaitedTimes: readonly AwaitedTime[]): NewRun {
  return awaitedTimes.length === 0 ? fresh : { ...fresh, awaitedTimes };
}

/** Of how many times one commit makes what the schedule is for. */
export function timesPerCommit({ group }: Pick<ScheduleEntity, 'group'>): number {
  const members = Array.isArray(group?.['runs']) ? group['runs'].length : 1;
  return Math.max(1, Math.floor(RUNS_PER_COMMIT / Math.max(1, members)));
}
