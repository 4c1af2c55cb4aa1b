import { Injectable } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { Settings } from '../../config/settings.js';
import { SCHEDULED_JOB, type JobOptions, type JobWork } from './scheduled-job.js';

/** A job with its times. */
export interface Job extends JobOptions {
  readonly everyMs: number;
  readonly jitterMs: number;
  readonly firstDelayMs: number;
  readonly level: 'debug' | 'info';
  readonly work: JobWork;
}

/** Finds the methods of all providers that are scheduled jobs. */
@Injectable()
export class JobExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly settings: Settings,
  ) {}

  find(): Job[] {
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
          : [this.#jobOf(options, (run) => Reflect.apply(method, instance, [run]))];
      }),
    );
  }

  #jobOf(options: JobOptions, work: JobWork): Job {
    const { everyMs: every } = options;
    const everyMs = typeof every === 'number' ? every : every(this.settings);
    return { jitterMs: everyMs / 10, firstDelayMs: everyMs, level: 'info', ...options, everyMs, work };
  }
}
