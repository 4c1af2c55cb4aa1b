import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { LessThanOrEqual, Repository } from 'typeorm';
import { WorkerAbsenceEntity } from '../../database/entities/worker.entity.js';

/** Absences of workers, for a pool in memory: a restart of the service ends none. */
@Injectable()
export class WorkerAbsencesRepository {
  constructor(
    @InjectRepository(WorkerAbsenceEntity) private readonly absences: Repository<WorkerAbsenceEntity>,
  ) {}

  /** Until when each worker is away. */
  async list(): Promise<ReadonlyMap<string, Date>> {
    const found = await this.absences.find();
    return new Map(found.map(({ workerId, until }) => [workerId, until]));
  }

  async put(workerId: string, until: Date): Promise<void> {
    await this.absences.upsert({ workerId, until }, ['workerId']);
  }

  async remove(workerId: string): Promise<void> {
    await this.absences.delete({ workerId });
  }

  /** Removes those that have ended by themselves. */
  async removeEnded(now: Date): Promise<void> {
    await this.absences.delete({ until: LessThanOrEqual(now) });
  }
}
