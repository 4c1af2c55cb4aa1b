import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { currentTime } from '../../database/sql.js';

/** Time and chance of the scheduler, for tests to replace. */
@Injectable()
export class JobClock {
  constructor(private readonly dataSource: DataSource) {}

  /** Milliseconds of a clock that never goes back. */
  now(): number {
    return performance.now();
  }

  /** The database's time. @throws when the database is away */
  databaseNow(): Promise<Date> {
    return currentTime(this.dataSource);
  }

  /** A number from 0 to below 1. */
  random(): number {
    return Math.random();
  }
}
