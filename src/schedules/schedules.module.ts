import { Module } from '@nestjs/common';
import { DefinitionsModule } from '../definitions/definitions.module.js';
import { GroupsModule } from '../groups/groups.module.js';
import { RunsModule } from '../runs/runs.module.js';
import { AwaitedTimeRepository } from './awaited/awaited-time.repository.js';
import { AwaitedTimes } from './awaited/awaited-times.js';
import { AwaitedTimesJob } from './awaited/awaited-times.job.js';
import { FiresService } from './fires/fires.service.js';
import { ScheduleBodies } from './fires/schedule-bodies.js';
import { RequestedFires } from './fires/requested-fires.js';
import { ScheduleMetrics } from './fires/schedule-metrics.js';
import { SchedulesJob } from './fires/schedules.job.js';
import { ScheduleRepository } from './schedule.repository.js';
import { SchedulesController } from './schedules.controller.js';
import { SchedulesService } from './schedules.service.js';

/** Schedules: runs and groups at the times of cron expressions and intervals. */
@Module({
  imports: [RunsModule, DefinitionsModule, GroupsModule],
  controllers: [SchedulesController],
  providers: [
    ScheduleRepository,
    SchedulesService,
    ScheduleBodies,
    FiresService,
    RequestedFires,
    ScheduleMetrics,
    SchedulesJob,
    AwaitedTimeRepository,
    AwaitedTimes,
    AwaitedTimesJob,
  ],
})
export class SchedulesModule {}
