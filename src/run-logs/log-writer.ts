import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Semaphore } from '../database/semaphore.js';
import { InvalidRequest } from '../common/http/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { RunNotFound } from '../runs/run.errors.js';
import { isRunId } from '../runs/storage/run.reader.js';
import { Settings } from '../config/settings.js';
import type { ChunkAddress } from './chunk-address.js';
import type { LogChunk } from './log-chunk.js';
import { LOG_LIMITS, type LogLimits } from './log-limits.js';
import { LogMetrics } from './log-metrics.js';
import { packLines } from './log-packing.js';
import { addChunk, EMPTY_LOG, type LogRow, type LogState } from './log-plan.js';
import { LogChunkRefused, LogStoreOverloaded } from './run-logs.errors.js';
import { RunLogRepository, type LogStanding, type PackedRow } from './run-log.repository.js';

/** How often a chunk is tried again when the log goes on under its hands; each time but the first it has been. */
const TRIES = 5;

/** How far a log has come. */
export interface LogPosition {
  readonly nextChunk: number;
  readonly nextLine: number;
}

/** Adds chunks to logs: a few at a time, the others in their order as long as there is room for them. */
@Injectable()
export class LogWriter {
  readonly #turns: Semaphore;
  #waitingBytes = 0;

  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: RunLogRepository,
    private readonly metrics: LogMetrics,
    private readonly settings: Settings,
    @Inject(LOG_LIMITS) private readonly limits: LogLimits,
  ) {
    this.#turns = new Semaphore(limits.maxWriting);
  }

  /**
   * Stores a chunk, unless it is stored already. What it answers is committed.
   * @throws RunNotFound; LogChunkRefused when it is not the next one, or the attempt was never in the worker's hands;
   * LogStoreOverloaded when too much is waiting
   */
  async add(address: ChunkAddress, chunk: LogChunk): Promise<LogPosition> {
    if (chunk.lines.length === 0 && !chunk.isLast) {
      throw new InvalidRequest(VALIDATION_FAILED, ['lines must not be empty unless is_last is true']);
    }
    if (!isRunId(address.runId)) throw new RunNotFound(address.runId);
    const bytes = chunk.lines.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    if (this.#waitingBytes > 0 && this.#waitingBytes + bytes > this.limits.maxWaitingBytes) {
      this.metrics.refusedChunks.inc();
      throw new LogStoreOverloaded();
    }
    this.#waitingBytes += bytes;
    try {
      return await this.#turns.take(() => this.#store(address, chunk, bytes));
    } finally {
      this.#waitingBytes -= bytes;
    }
  }

  async #store(address: ChunkAddress, chunk: LogChunk, textBytes: number): Promise<LogPosition> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const stored = await this.#readState(address);
      const state = stored ?? EMPTY_LOG;
      if (address.chunk < state.nextChunk) return positionOf(state);
      if (address.chunk > state.nextChunk) {
        throw new LogChunkRefused(
          `Chunk ${address.chunk} is not the next one; chunk ${state.nextChunk} is expected`,
        );
      }
      if (stored === null) {
        await this.repository.open(this.dataSource, address, address.workerId);
        // Another worker may have opened the log at the same time: read whose it is.
        continue;
      }
      const change = addChunk(state, chunk, this.settings.logLimitBytes);
      if ('refusal' in change) throw new LogChunkRefused(change.refusal);
      const packed = await packRows(change.rows);
      if (await this.repository.append(this.dataSource, address, change, packed)) {
        const packedBytes = packed.reduce((sum, { lines }) => sum + lines.length, 0);
        this.metrics.chunks.inc();
        this.metrics.textBytes.inc(textBytes);
        this.metrics.packedBytes.inc(packedBytes);
        return positionOf(change.state);
      }
    }
    throw new LogStoreOverloaded();
  }

  /** How far the log has come; null when it is still to be begun. */
  async #readState({ runId, attempt, workerId }: ChunkAddress): Promise<LogState | null> {
    const { silenceMs } = this.limits;
    const standing = await this.repository.findStanding(this.dataSource, runId, attempt, silenceMs);
    if (standing === null) throw new RunNotFound(runId);
    if (standing.attempt === null) throw new LogChunkRefused(`OpRun '${runId}' has no attempt ${attempt}`);
    if (ownerOf(standing) !== workerId) {
      throw new LogChunkRefused(`Attempt ${attempt} of OpRun '${runId}' was not in the hands of this worker`);
    }
    return standing.log?.state ?? null;
  }
}

/**
 * Whose log it is. Who has begun it keeps it, even if an admin has given the same attempt to somebody else since: the
 * chunks of two workers would be taken for each other's.
 */
function ownerOf({ log, holder }: LogStanding): string | null {
  return log?.workerId ?? holder;
}

function positionOf({ nextChunk, end }: LogState): LogPosition {
  return { nextChunk, nextLine: end.line };
}

/** Row by row: one is in the thread pool at a time, so that the pool has threads for others. */
async function packRows(rows: readonly LogRow[]): Promise<PackedRow[]> {
  const packed: PackedRow[] = [];
  for (const { lines, ...row } of rows) {
    packed.push({ ...row, lineCount: lines.length, lines: await packLines(lines) });
  }
  return packed;
}
