import assert from 'node:assert/strict';
import { KEYS, type Send, type TestAnswer } from '../app/test-app.js';
import { bodyOf } from '../http/answer-shapes.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

let workers = 0;

/** A run at an attempt as its worker sees it, also after it has lost it. */
export class HeldRun {
  private constructor(
    private readonly send: Send,
    /** What the claim gave. */
    readonly op: any,
    readonly worker: string,
    private readonly key: string,
  ) {}

  /** Lets a new worker claim the one run that waits. */
  static async claim(send: Send, key: string = KEYS.worker): Promise<HeldRun> {
    const worker = `holder-${(workers += 1)}`;
    await beat(send, worker, key);
    const { body } = await send('POST', `/workers/${worker}/claim?max=1`, { key });
    const [op] = body.ops;
    return new HeldRun(send, op ?? assert.fail('a run waits'), worker, key);
  }

  /** The same run for requests to another process of the service. */
  at(send: Send): HeldRun {
    return new HeldRun(send, this.op, this.worker, this.key);
  }

  /** Shows that the worker is still there. */
  heartbeat(): Promise<void> {
    return beat(this.send, this.worker, this.key);
  }

  /** Sends a request about the run; the answer is whatever it is. */
  request(method: string, path: string, body?: object): Promise<TestAnswer> {
    const headers = { 'X-Worker-Id': this.worker, 'X-Run-Attempt': String(this.op.attempt) };
    return this.send(method, `/runs/${this.op.id}${path}`, { key: this.key, headers, body });
  }

  /** The run as its worker sees it. */
  async get(): Promise<any> {
    const answer = await this.request('GET', '');
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  /** Asks where artifacts go; the answer is whatever it is. */
  urls(names: readonly string[], more: object = {}): Promise<TestAnswer> {
    return this.request('POST', '/artifact-urls', { names, ...more });
  }

  /** Reports an event; the answer is whatever it is. */
  report(type: string, payload: object = {}, msg: string | number = ''): Promise<TestAnswer> {
    return this.request('POST', '/events', { type, msg, payload });
  }

  /** Reports that the program has started. */
  async started(): Promise<void> {
    const answer = await this.report('STARTED', { worker_id: this.worker });
    assert.equal(answer.status, 200, answer.text);
  }
}

async function beat(send: Send, worker: string, key: string): Promise<void> {
  const resources = { cpu_cores: 4, ram_mb: 1000, gpus: [] };
  const body = { worker_id: worker, capabilities: ['artifacts'], resources, tags: [] };
  bodyOf(await send('POST', '/workers/heartbeat', { key, body }), 'HeartbeatResponse');
}
