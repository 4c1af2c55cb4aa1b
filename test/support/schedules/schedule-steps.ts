import assert from 'node:assert/strict';
import { SchedulerRegistry } from '@nestjs/schedule';
import { execute } from '../../../src/database/sql/sql.js';
import { SCHEDULED_ENDS, SCHEDULES, SchedulesJob } from '../../../src/schedules/fires/schedules.job.js';
import type { TestApp } from '../app/test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** What tests do to schedules over HTTP. Their job runs only when a test asks for it. */
export class ScheduleSteps {
  constructor(private readonly service: TestApp) {}

  /** Keeps the jobs of the service from running by themselves. Call it once it has started. */
  stopJobs(): void {
    const registry = this.service.app.get(SchedulerRegistry);
    for (const name of [SCHEDULES, SCHEDULED_ENDS]) registry.deleteTimeout(name);
  }

  /** Stores a schedule: every hour, of an image, unless given otherwise. */
  async put(id: string, body: Readonly<Record<string, unknown>> = {}, status = 201): Promise<any> {
    const times = 'cron' in body ? {} : { every_s: 3600 };
    const answer = await this.service.send('PUT', `/schedules/${id}`, {
      body: { ...('group' in body ? {} : { run: { image: 'image' } }), ...times, ...body },
    });
    assert.equal(answer.status, status, answer.text);
    return answer.body;
  }

  async get(id: string): Promise<any> {
    const answer = await this.service.send('GET', `/schedules/${id}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  async fires(id: string): Promise<any[]> {
    const answer = await this.service.send('GET', `/schedules/${id}/fires?limit=1000`);
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  /** Runs of the schedule, the newest first. */
  async runs(id: string): Promise<any[]> {
    const { body } = await this.service.send('GET', `/runs?schedule=${id}&limit=100`);
    return body.data;
  }

  /** Makes a time the first one that is not accounted for, and fires what is due. */
  async fireFrom(id: string, firstMissing: Date): Promise<void> {
    await this.setNext(id, firstMissing);
    await this.job.runOnce();
  }

  /** Makes a time the first one that is not accounted for. */
  async setNext(id: string, time: Date): Promise<void> {
    const changed = await execute(
      this.service.dataSource,
      `update schedules set next_at = $2::timestamptz, due_at = now() where id = $1::text`,
      [id, time.toISOString()],
    );
    assert.equal(changed, 1);
  }

  /** The last time of an interval of the epoch. */
  lastHour(hoursAgo = 0): Date {
    const hour = 3_600_000;
    return new Date(Math.floor(Date.now() / hour) * hour - hoursAgo * hour);
  }

  /** A time in the zone that another text of a time is in. */
  shown(time: Date, like: string): string {
    const offset = like.slice(-6);
    const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(4));
    const local = new Date(time.getTime() + (offset.startsWith('-') ? -1 : 1) * minutes * 60_000);
    return local.toISOString().slice(0, 19) + offset;
  }

  /** Fires the last times of ten seconds, two at least, as soon as they are due. @returns the fires that made something, in order */
  async fireTwice(id: string, body: object): Promise<any[]> {
    await this.put(id, { every_s: 10, ...body });
    await this.fireFrom(id, new Date(Math.floor(Date.now() / 10_000) * 10_000 - 20_000));
    return (await this.fires(id)).filter(({ outcome }) => outcome === 'created').toReversed();
  }

  get job(): SchedulesJob {
    return this.service.app.get(SchedulesJob, { strict: false });
  }
}
