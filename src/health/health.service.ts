import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { currentTime } from '../database/sql.js';

const PATIENCE_MS = 2000;

/** Judges whether the service can do its work. */
@Injectable()
export class HealthService {
  #running: Promise<boolean> | undefined;

  constructor(private readonly dataSource: DataSource) {}

  /** An object of strings whose `status` is `ok` or `unavailable`; it takes two seconds at most. */
  async check(): Promise<Record<string, string>> {
    const reachable = await this.#databaseAnswers();
    return reachable ? { status: 'ok', database: 'ok' } : { status: 'unavailable', database: 'unreachable' };
  }

  /** Callers at the same time share one question, so that probes cannot use up the connections. */
  #databaseAnswers(): Promise<boolean> {
    this.#running ??= this.#ask().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #ask(): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), PATIENCE_MS);
    });
    const answer = currentTime(this.dataSource.manager).then(
      () => true,
      () => false,
    );
    return Promise.race([answer, patience]).finally(() => clearTimeout(timer));
  }
}
