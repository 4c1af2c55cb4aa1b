import type { Server } from 'node:http';
import {
  Inject,
  Module,
  type DynamicModule,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { Drain } from '../http/server/drain.js';
import { Settings } from '../../config/settings.js';
import { JobClock } from './job-clock.js';
import { JobMetrics } from './job-metrics.js';
import { JobScheduler } from './job-scheduler.js';
import type { ScheduledJob } from './scheduled-job.js';

const SCHEDULED_JOBS = Symbol('SCHEDULED_JOBS');

/** Runs scheduled jobs while the server listens. The shutdown waits for the runs in progress. */
@Module({})
export class SchedulingModule implements OnApplicationBootstrap, OnModuleDestroy {
  constructor(
    @Inject(SCHEDULED_JOBS) private readonly jobs: readonly ScheduledJob[],
    private readonly scheduler: JobScheduler,
    private readonly providers: ModuleRef,
    private readonly host: HttpAdapterHost,
    private readonly drain: Drain,
  ) {}

  /** @param jobs the registry; their providers come from any module of the application */
  static register(jobs: (settings: Settings) => readonly ScheduledJob[]): DynamicModule {
    return {
      module: SchedulingModule,
      global: true,
      imports: [ScheduleModule.forRoot()],
      providers: [
        { provide: SCHEDULED_JOBS, inject: [Settings], useFactory: jobs },
        JobClock,
        JobMetrics,
        JobScheduler,
      ],
      exports: [JobScheduler],
    };
  }

  /** @throws Error when a job has no provider */
  onApplicationBootstrap(): void {
    const resolved = this.jobs.map((job) => ({ job, work: job.resolve(this.providers) }));
    const start = (): void => {
      for (const { job, work } of resolved) this.scheduler.add(job, work);
    };
    const server: Server = this.host.httpAdapter.getHttpServer();
    if (server.listening) start();
    else server.once('listening', start);
    this.drain.signal.addEventListener('abort', () => void this.scheduler.stop(), { once: true });
  }

  onModuleDestroy(): Promise<void> {
    return this.scheduler.stop();
  }
}
