import { Injectable } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { Settings } from '../../config/settings.js';
import { currentTime } from '../../database/sql/sql.js';
import { SCHEDULED_JOB, type JobOptions } from './scheduled-job.js';

/** A job with its times. */
export interface Job extends JobOptions {
  readonly everyMs: number;
  readonly jitterMs: number;
  readonly firstDelayMs: number;
  readonly level: 'debug' | 'info';
  /** Does the work once. @param stop aborts when the process shuts down @returns how many items it processed */
  readonly work: (stop: AbortSignal) => number | Promise<number>;
}

/** Finds the methods of all providers that are scheduled jobs. */
@Injectable()
export class JobExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly settings: Settings,
    private readonly dataSource: DataSource,
  ) {}

  find(): Job[] {
    const now = (): Promise<Date> => currentTime(this.dataSource);
    const instances = this.discovery
      .getProviders()
      .filter((wrapper) => wrapper.isDependencyTreeStatic())
      .map(({ instance }): unknown => instance)
      .filter((instance) => typeof instance === 'object' && instance !== null);
    // Several tokens may name one provider.
    return [...new Set(instances)].flatMap((instance) =>
      this.scanner.getAllMethodNames(Object.getPrototypeOf(instance)).flatMap((name) => {
        const method: unknown = Reflect.get(instance, name);
        if (typeof method !== 'function') return [];
        const options: JobOptions | undefined = Reflect.getMetadata(SCHEDULED_JOB, method);
        return options === undefined
          ? []
          : [this.#jobOf(options, (stop) => Reflect.apply(method, instance, [{ now, stop }]))];
      }),
    );
  }

  #jobOf(options: JobOptions, work: Job['work']): Job {
    const { everyMs: every } = options;
    const everyMs = typeof every === 'number' ? every : every(this.settings);
    return { jitterMs: everyMs / 10, firstDelayMs: everyMs, level: 'info', ...options, everyMs, work };
  }
}
