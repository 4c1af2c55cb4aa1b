import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/access.js';
import { readItem } from '../../common/http/validation/bulk-items.js';
import type { ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { RunBodies } from '../../definitions/run-bodies.js';
import { CreateGroupDto } from '../../groups/dto/group-requests.dto.js';
import { GroupPlanner, type PlannedGroup } from '../../groups/members/group-planner.js';
import { newId } from '../../runs/machine/new-id.js';
import type { NewRun } from '../../runs/machine/run.js';
import { RunsService } from '../../runs/runs.service.js';
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
  ) {}

  /** What is to be made for a time. @throws DomainError if there can be nothing */
  async make(schedule: ScheduleBody, at: Date, caller?: Caller): Promise<Made> {
    const { id, run, group, labels } = schedule;
    const facts = factsOf(schedule, at);
    const origin = { caller, schedule: { id, time: facts['schedule.time'] ?? '' } };
    if (group !== null)
      return { group: await this.groups.plan(readItem(CreateGroupDto, group), { ...origin, facts, labels }) };
    if (run === null) throw new Error(`schedule ${id} has neither a run nor a group`);
    const request = await this.bodies.request(run, { facts: { ...facts, 'run.id': newId() }, labels });
    const fresh = this.runs.newRun({ ...request, schedule: origin.schedule }, { caller });
    if (fresh.hasFiles) await this.runs.checkFiles(fresh, caller);
    await this.groups.checkKnown(fresh.dependsOn ?? []);
    return { run: fresh };
  }

  /** Refuses a body of which nothing can be made as it is meant. @param at a time @throws DomainError */
  async check(schedule: ScheduleBody, at: Date, caller: Caller): Promise<void> {
    if (schedule.run !== null) await this.bodies.check(schedule.run, FACTS);
    await this.make(schedule, at, caller);
  }
}

/** Of how many times one commit makes what the schedule is for. */
export function timesPerCommit({ group }: Pick<ScheduleEntity, 'group'>): number {
  const members = Array.isArray(group?.['runs']) ? group['runs'].length : 1;
  return Math.max(1, Math.floor(RUNS_PER_COMMIT / Math.max(1, members)));
}
