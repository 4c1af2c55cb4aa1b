import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { currentTime } from '../../database/sql/sql.js';

/** Time and randomness of the scheduler; tests replace it. */
@Injectable()
export class JobClock {
  constructor(private readonly dataSource: DataSource) {}

  /** Milliseconds, monotonic. */
  now(): number {
    return performance.now();
  }

  /** The database's time. @throws when the database is unavailable */
  databaseNow(): Promise<Date> {
    return currentTime(this.dataSource);
  }

  random(): number {
    return Math.random();
  }
}
