import { Module } from '@nestjs/common';
import { DefinitionsModule } from '../definitions/definitions.module.js';
import { RunsModule } from '../runs/runs.module.js';
import { DependenciesJob } from './ends/dependencies.job.js';
import { DependencyRepository } from './ends/dependency.repository.js';
import { InputSupply } from './ends/input-supply.js';
import { GroupCommands } from './group-commands.js';
import { GroupMetrics } from './group-metrics.js';
import { GroupWaits } from './group-waits.js';
import { GroupRepository } from './group.repository.js';
import { GroupsController } from './groups.controller.js';
import { GroupsService } from './groups.service.js';
import { ArrayMembers } from './members/array-members.js';
import { GroupsJob } from './members/groups.job.js';
import { GroupPlanner } from './members/group-planner.js';
import { MemberRuns } from './members/member-runs.js';

/** Runs that wait for others, groups of runs, and arrays. */
@Module({
  imports: [RunsModule, DefinitionsModule],
  controllers: [GroupsController],
  providers: [
    GroupRepository,
    GroupsService,
    GroupCommands,
    GroupWaits,
    GroupMetrics,
    MemberRuns,
    GroupPlanner,
    ArrayMembers,
    GroupsJob,
    DependencyRepository,
    DependenciesJob,
    InputSupply,
  ],
  exports: [GroupPlanner],
})
export class GroupsModule {}
