import assert from 'node:assert/strict';
import type { Send, TestAnswer } from '../app/test-app.js';

/** A worker that is nothing but requests, and heartbeats by itself until it is ended. */
export class RawWorker {
  /** Runs that its heartbeats name. */
  readonly running = new Set<string>();
  private timer: NodeJS.Timeout | undefined;

  private constructor(
    private readonly send: Send,
    readonly id: string,
  ) {}

  /** Registers it. */
  static async start(send: Send, id: string, everyMs: number): Promise<RawWorker> {
    const worker = new RawWorker(send, id);
    await worker.heartbeat();
    worker.timer = setInterval(() => void worker.heartbeat(), everyMs);
    return worker;
  }

  /** Heartbeats no more. */
  end(): void {
    clearInterval(this.timer);
  }

  async heartbeat(): Promise<void> {
    const constraints = { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null };
    const body = {
      worker_id: this.id,
      resources: { cpu_cores: 64, ram_mb: 100_000, gpus: [] },
      tags: [],
      running_ops: [...this.running].map((id) => ({ id, image: 'i', inputs: {}, constraints })),
    };
    const answer = await this.send('POST', '/workers/heartbeat', { body });
    assert.equal(answer.status, 200, answer.text);
  }

  /** @returns ids of the runs that the claim got; they are in its heartbeats from then on */
  async claim(waitSeconds = 0): Promise<string[]> {
    const { status, text, body } = await this.send(
      'POST',
      `/workers/${encodeURIComponent(this.id)}/claim?wait=${waitSeconds}`,
    );
    assert.equal(status, 200, text);
    const ids: string[] = body.ops.map(({ id }: { id: string }) => id);
    for (const id of ids) this.running.add(id);
    return ids;
  }

  /** Reports as itself, about an attempt. */
  report(runId: string, attempt: number, type: string, payload: object = {}): Promise<TestAnswer> {
    const headers = { 'X-Worker-Id': this.id, 'X-Run-Attempt': String(attempt) };
    const msg = type === 'PROGRESS' ? 50 : '';
    return this.send('POST', `/runs/${runId}/events`, { body: { type, msg, payload }, headers });
  }
}
