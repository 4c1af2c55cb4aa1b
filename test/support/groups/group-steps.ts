import assert from 'node:assert/strict';
import { until } from '../app/passing-time.js';
import { bodyOf } from '../http/answer-shapes.js';
import type { TestApp } from '../app/test-app.js';
import { RunSteps } from '../runs/run-steps.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** What tests do to groups over HTTP. */
export class GroupSteps {
  readonly runs: RunSteps;

  constructor(private readonly service: Pick<TestApp, 'send'>) {
    this.runs = new RunSteps((...request) => service.send(...request));
  }

  async create(body: object): Promise<any> {
    return bodyOf(await this.service.send('POST', '/groups', { body }), 'Group', 201);
  }

  async get(id: string): Promise<any> {
    return bodyOf(await this.service.send('GET', `/groups/${id}`), 'Group');
  }

  async retry(id: string, body?: object): Promise<any> {
    return bodyOf(await this.service.send('POST', `/groups/${id}/retry`, { ...(body && { body }) }), 'Group');
  }

  /** The lines of what is wrong with a body. */
  async refused(path: string, body: object): Promise<string[]> {
    const answer = await this.service.send('POST', path, { body });
    if (answer.status !== 400) throw new Error(`${answer.status} ${answer.text}`);
    return answer.body.errors ?? answer.body.detail;
  }

  /** Members, by ref or index. */
  async members(id: string): Promise<Map<string | number, any>> {
    const all: any[] = [];
    for (let after = ''; ;) {
      const { body } = await this.service.send('GET', `/runs?group=${id}&limit=100${after}`);
      all.push(...body.data);
      if (!body.has_more) break;
      after = `&starting_after=${all.at(-1).id}`;
    }
    return new Map(all.map((run) => [run.array?.index ?? run.group.ref, run]));
  }

  /** Takes a run to its end. */
  async end(
    id: string,
    type: 'COMPLETED' | 'FAILED' | 'CANCELLED' = 'COMPLETED',
    outputs?: object,
  ): Promise<void> {
    if (type === 'CANCELLED') {
      await this.service.send('POST', `/runs/${id}/cancel`);
      return;
    }
    await this.service.send('PATCH', `/runs/${id}`, { body: { state: 'RUNNING' } });
    await this.runs.event(
      id,
      type,
      type === 'FAILED' ? { error_message: 'x' } : { ...(outputs && { outputs }) },
    );
  }

  /** Waits until a run is as wanted. */
  untilRun(id: string, isDue: (run: any) => boolean): Promise<any> {
    return until(() => this.runs.get(id), isDue);
  }

  /** Waits until a group is as wanted. */
  untilGroup(id: string, isDue: (group: any) => boolean): Promise<any> {
    return until(() => this.get(id), isDue);
  }

  /** Waits until a run that waits for others is ready. */
  async untilReady(id: string): Promise<any> {
    await until(
      () => this.reason(id),
      (reason) => reason !== 'dependency',
    );
    const run = await this.runs.get(id);
    assert.equal(run.state, 'PENDING');
    return run;
  }

  /** Why a run waits; null: a worker may have it. */
  async reason(id: string): Promise<string | null> {
    const { body } = await this.service.send('GET', `/runs/${id}/explain`);
    return body.reason ?? null;
  }
}
