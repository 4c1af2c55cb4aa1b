import type { Logger } from 'pino';
import { Backoff } from '@longshore/common/backoff';
import { errorText } from '@longshore/common/errors';
import type { Clock } from '../process/clock.js';
import { MachineUnable } from '../runtime/runtime.js';
import type { Gpu } from '../service-api/service-api.js';
import type { Inabilities } from './inabilities.js';
import type { GpuReading } from './resources.js';

/** Interval between questions to nvidia-smi, in milliseconds. */
const READ_MS = 60_000;

/** Pauses before it is asked again while it fails. */
const READ_AGAIN = { firstMs: 5_000, maxMs: READ_MS };

/**
 * Pauses before the engine is tried again. They grow until the container of a run with GPUs has started, so that an engine that
 * fails now and then is given few runs.
 */
const TRY_AGAIN = { firstMs: 300_000, maxMs: 3_600_000 };

export interface GpuWatchOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  readonly inabilities: Inabilities;
  /** What nvidia-smi says. Never rejects. */
  readonly read: () => Promise<GpuReading>;
  /** Ids of the GPUs that the worker may offer; null: all. */
  readonly chosen: readonly number[] | null;
  /** @throws MachineUnable when the engine cannot give containers these GPUs */
  readonly probe: (ids: readonly number[]) => Promise<void>;
  /** Called when other GPUs are offered than before. */
  readonly onChange: (offered: readonly Gpu[]) => void;
}

/**
 * Which GPUs of this machine runs can have at present: those that nvidia-smi shows, while a container of the worker's own
 * starts with them. It asks again and again, so that GPUs come and go with the state of the machine.
 */
export class GpuWatch {
  private reading: GpuReading = { isInstalled: true, gpus: [], problem: null };
  private present: readonly Gpu[] = [];
  /** Ids of all GPUs that were present before. */
  private readonly known: Set<number>;
  /** Why the engine cannot give them to containers, in its words; null: it can. */
  private fault: string | null = null;
  private offered: readonly Gpu[] = [];
  private readonly readAgain: Backoff;
  private readonly tryAgain: Backoff;
  private readAtMs = 0;
  private tryAtMs = Infinity;
  private wakeUp = new AbortController();

  constructor(private readonly options: GpuWatchOptions) {
    this.known = new Set(options.chosen);
    this.readAgain = new Backoff(READ_AGAIN, options.random);
    this.tryAgain = new Backoff(TRY_AGAIN, options.random);
  }

  get gpus(): readonly Gpu[] {
    return this.offered;
  }

  /** Reads what there is, and tries the engine when there are other GPUs than before. Never rejects. */
  async check(): Promise<void> {
    const { clock, chosen, read } = this.options;
    const before = idsOf(this.present).join();
    this.reading = await read();
    const { gpus, problem } = this.reading;
    this.present = problem === null ? gpus.filter(({ id }) => chosen?.includes(id) ?? true) : [];
    for (const { id } of this.present) this.known.add(id);
    if (problem === null) this.readAgain.reset();
    this.readAtMs = clock.nowMs() + (problem === null ? READ_MS : this.readAgain.nextMs());
    if (this.present.length > 0 && idsOf(this.present).join() !== before) await this.try();
    this.tell();
  }

  /** Checks until the signal is aborted. A machine without nvidia-smi is not asked again. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.options;
    while (!signal.aborted && this.reading.isInstalled) {
      this.wakeUp = new AbortController();
      const dueMs = Math.min(this.readAtMs, this.tryAtMs);
      const either = AbortSignal.any([signal, this.wakeUp.signal]);
      await clock.sleep(Math.max(0, dueMs - clock.nowMs()), either);
      if (signal.aborted) return;
      if (clock.nowMs() >= this.readAtMs) await this.check();
      if (clock.nowMs() >= this.tryAtMs) {
        await this.try();
        this.tell();
      }
    }
  }

  /** The engine could not give GPUs to the container of a run. @param words of the engine, one line without secrets */
  recordFault(words: string): void {
    this.fail(words);
    this.tell();
    this.wakeUp.abort();
  }

  /** The container of a run with GPUs has started. */
  recordStart(): void {
    this.tryAgain.reset();
  }

  private async try(): Promise<void> {
    const { probe, logger } = this.options;
    try {
      if (this.present.length > 0) await probe(idsOf(this.present));
      if (this.fault !== null) logger.info('the container engine can give containers GPUs again');
      this.fault = null;
      this.tryAtMs = Infinity;
    } catch (error) {
      if (error instanceof MachineUnable) this.fail(error.words);
      else {
        // It says nothing about GPUs; a run that meets it pauses the engine.
        logger.warn({ error: errorText(error) }, 'could not find out whether containers can have GPUs');
        if (this.fault !== null) this.pause();
      }
    }
  }

  private fail(words: string): void {
    if (this.fault !== words)
      this.options.logger.warn({ error: words }, 'the container engine cannot give containers GPUs');
    this.fault = words;
    this.pause();
  }

  private pause(): void {
    this.tryAtMs = this.options.clock.nowMs() + this.tryAgain.nextMs();
  }

  private tell(): void {
    const { inabilities, logger, onChange } = this.options;
    const offered = this.fault === null ? this.present : [];
    const reason = this.reason();
    if (reason === null) inabilities.clear('gpus');
    else inabilities.set('gpus', reason);
    if (JSON.stringify(offered) === JSON.stringify(this.offered)) return;
    logger.warn(
      { gpus: idsOf(offered), before: idsOf(this.offered), reason },
      'other GPUs are offered to runs',
    );
    this.offered = offered;
    onChange(offered);
  }

  private reason(): string | null {
    if (this.reading.problem !== null) return this.reading.problem;
    if (this.fault !== null && this.present.length > 0) return this.fault;
    const missing = [...this.known].filter((id) => !this.present.some((gpu) => gpu.id === id));
    return missing.length === 0 ? null : `nvidia-smi does not show GPU ${missing.join(', ')}`;
  }
}

function idsOf(gpus: readonly Gpu[]): number[] {
  return gpus.map(({ id }) => id);
}
