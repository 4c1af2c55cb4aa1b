import { createLongshoreClient, type LongshoreClient } from '@longshore/client';
import { check } from './scenario.js';

const HEARTBEAT_MS = 300;
const CLAIM_WAIT_S = 2;

/** The kit's own worker, without the proxy: takes over a run that the worker under test has lost. */
export class SecondWorker {
  private readonly client: LongshoreClient;
  private readonly held = new Set<string>();
  private timer: NodeJS.Timeout | null = null;

  constructor(
    baseUrl: string,
    apiKey: string,
    private readonly id: string,
  ) {
    this.client = createLongshoreClient({ baseUrl, apiKey });
  }

  /** Registers, claims that run and reports it started. @throws RuleViolation when another run comes, or none in time */
  async takeOver(runId: string, attempt: number, limitMs: number): Promise<void> {
    await this.heartbeat();
    this.timer = setInterval(() => void this.heartbeat().catch(() => undefined), HEARTBEAT_MS);
    const deadline = performance.now() + limitMs;
    while (!this.held.has(runId)) {
      check(performance.now() < deadline, 'the run was not to be had for a second worker');
      const params = { path: { worker_id: this.id }, query: { wait: CLAIM_WAIT_S } };
      const { data } = await this.client.POST('/workers/{worker_id}/claim', { params });
      for (const { id } of data?.ops ?? []) this.held.add(id);
    }
    await this.report(runId, attempt, 'STARTED', { worker_id: this.id });
  }

  /** Completes the run. */
  async complete(runId: string, attempt: number, outputs: Record<string, unknown>): Promise<void> {
    await this.report(runId, attempt, 'COMPLETED', { outputs });
    this.held.delete(runId);
  }

  /** Stops the heartbeats. */
  end(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  private async heartbeat(): Promise<void> {
    const constraints = { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null };
    await this.client.POST('/workers/heartbeat', {
      body: {
        worker_id: this.id,
        resources: { cpu_cores: 1, ram_mb: 1024, gpus: [] },
        tags: [],
        running_ops: [...this.held].map((id) => ({ id, image: 'held', inputs: {}, constraints })),
      },
    });
  }

  private async report(
    runId: string,
    attempt: number,
    type: string,
    payload: Record<string, unknown>,
  ): Promise<void> {
    const header = { 'X-Worker-Id': this.id, 'X-Run-Attempt': attempt };
    const { error } = await this.client.POST('/runs/{id}/events', {
      params: { path: { id: runId }, header },
      body: { type, msg: 'by the second worker', payload },
    });
    check(
      error === undefined,
      `the second worker's ${type} was refused: ${error?.detail}. Did a late report of the worker end the run?`,
    );
  }
}
