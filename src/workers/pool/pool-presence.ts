import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { Notifications } from '../../database/notifications.js';
import { Log } from '../../common/logging/logger.js';
import { Settings } from '../../config/settings.js';
import { poolKindOf } from './pool-kind.js';

/** Longest that a start waits for the connection, in milliseconds. */
const PATIENCE_MS = 10_000;

/**
 * Has this process count as one of those that use the shared pool, from before it listens, so that a process that
 * starts later does not take itself for the first and empty it.
 */
@Injectable()
export class PoolPresence implements OnApplicationBootstrap {
  constructor(
    private readonly settings: Settings,
    private readonly notifications: Notifications,
    private readonly log: Log,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    if (poolKindOf(this.settings) !== 'shared') return;
    const end = new AbortController();
    const isOpen = await Promise.race([
      this.notifications.open().then(() => true),
      sleep(PATIENCE_MS, false, { signal: end.signal }).catch(() => false),
    ]);
    end.abort();
    if (!isOpen) this.log.warn('not known to the other processes yet: one that starts may empty the pool');
  }
}
