import assert from 'node:assert/strict';
import { bodyOf } from '../http/answer-shapes.js';
import type { Send, TestAnswer } from '../app/test-app.js';

/** Headers by which a reporter says who it is. */
export interface Fence {
  readonly worker?: string;
  readonly attempt?: number | string;
}

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** What tests do to runs over HTTP, each step checked against the documented shape of its answer. */
export class RunSteps {
  constructor(readonly send: Send) {}

  /** Creates a run. */
  async create(body: Readonly<Record<string, unknown>> = {}): Promise<any> {
    return bodyOf(await this.send('POST', '/runs', { body: { image: 'image', ...body } }), 'OpRun', 201);
  }

  /** The run as it is now. */
  async get(id: string): Promise<any> {
    return bodyOf(await this.send('GET', `/runs/${id}`), 'OpRun');
  }

  /** Its attempts, oldest first. */
  async attempts(id: string): Promise<any[]> {
    return bodyOf(await this.send('GET', `/runs/${id}/attempts`), 'OpAttempts');
  }

  /** Its timeline after an index, as a poll shows it. */
  async poll(id: string, after?: number): Promise<any[]> {
    const query = after === undefined ? '' : `?after=${after}`;
    return bodyOf(await this.send('GET', `/runs/${id}/events${query}`), 'PolledEvents').events;
  }

  /** Reports an event; the answer is whatever it is. */
  report(id: string, body: unknown, { worker, attempt }: Fence = {}): Promise<TestAnswer> {
    const headers = {
      ...(worker === undefined ? {} : { 'X-Worker-Id': worker }),
      ...(attempt === undefined ? {} : { 'X-Run-Attempt': String(attempt) }),
    };
    return this.send('POST', `/runs/${id}/events`, { body, headers });
  }

  /** Reports an event that must be taken. */
  async event(id: string, type: string, payload?: unknown, msg: string | number = ''): Promise<any> {
    return bodyOf(
      await this.report(id, { type, msg, ...(payload === undefined ? {} : { payload }) }),
      'OpRun',
    );
  }

  /** Records an event that means nothing, without asking for the run. */
  async note(id: string): Promise<void> {
    const answer = await this.send('POST', `/runs/${id}/events`, {
      body: { type: 'NOTE', msg: '' },
      headers: { Prefer: 'return=minimal' },
    });
    assert.equal(answer.status, 204, answer.text);
  }

  /** Registers a worker or refreshes it. @returns the worker */
  async heartbeat(id = 'w', body: Readonly<Record<string, unknown>> = {}): Promise<any> {
    const { lost_ops: _, ...worker } = bodyOf(await this.sendHeartbeat(id, body), 'HeartbeatResponse');
    return worker;
  }

  /** Sends a heartbeat; the answer is whatever it is. @param query such as `?wait=5` */
  sendHeartbeat(id: string, body: Readonly<Record<string, unknown>> = {}, query = ''): Promise<TestAnswer> {
    const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
    return this.send('POST', `/workers/heartbeat${query}`, {
      body: { worker_id: id, resources, tags: [], ...body },
    });
  }

  /** What a claim of the worker gets. */
  async claim(worker = 'w'): Promise<any[]> {
    const path = `/workers/${encodeURIComponent(worker)}/claim`;
    return bodyOf(await this.send('POST', path), 'ClaimedOps').ops;
  }

  /** Hands everything that is pending to the worker. */
  async emptyQueue(worker = 'w'): Promise<void> {
    await this.heartbeat(worker);
    while ((await this.claim(worker)).length > 0);
  }

  /** A new run in the hands of the worker; every pending run of higher standing is claimed on the way. */
  async assigned(body: Readonly<Record<string, unknown>> = {}, worker = 'w'): Promise<any> {
    await this.heartbeat(worker);
    const { id } = await this.create({ priority: 2 ** 31 - 1, ...body });
    await this.claimUntil(id, worker);
    return this.get(id);
  }

  /** A new run whose container has started. */
  async running(body: Readonly<Record<string, unknown>> = {}, worker = 'w'): Promise<any> {
    const { id } = await this.assigned(body, worker);
    return this.event(id, 'STARTED', { worker_id: worker });
  }

  /** Claims until the worker has got the run. */
  async claimUntil(id: string, worker = 'w'): Promise<void> {
    for (;;) {
      const ops = await this.claim(worker);
      assert.notDeepEqual(ops, [], 'the run is in the queue');
      if (ops.some((op) => op.id === id)) return;
    }
  }

  /** A new run in the state. */
  async inState(state: string, body: Readonly<Record<string, unknown>> = {}): Promise<any> {
    switch (state) {
      case 'PENDING':
        return this.create(body);
      case 'ASSIGNED':
        return this.assigned(body);
      case 'RUNNING':
        return this.running(body);
      default: {
        const { id } = await this.running(body);
        return this.event(id, state);
      }
    }
  }
}
