import type { Server } from 'node:http';
import { Global, Module, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { DiscoveryModule, HttpAdapterHost } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { Clock } from '../clock.js';
import { Drain } from '../http/server/drain.js';
import { JobExplorer, JobMetrics, JobScheduler } from './job-scheduler.js';

/** Runs the methods that are scheduled jobs while the server listens. The shutdown waits for the runs in progress. */
@Global()
@Module({
  imports: [ScheduleModule.forRoot(), DiscoveryModule],
  providers: [Clock, JobExplorer, JobMetrics, JobScheduler],
  exports: [JobScheduler],
})
export class SchedulingModule implements OnApplicationBootstrap, OnModuleDestroy {
  constructor(
    private readonly scheduler: JobScheduler,
    private readonly explorer: JobExplorer,
    private readonly host: HttpAdapterHost,
    private readonly drain: Drain,
  ) {}

  onApplicationBootstrap(): void {
    const jobs = this.explorer.find();
    const start = (): void => {
      for (const job of jobs) this.scheduler.add(job);
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
