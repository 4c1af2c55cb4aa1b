import { Injectable } from '@nestjs/common';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { Settings } from '../config/settings.js';
import { Semaphore } from '@longshore/common/semaphore';
import { RunNotFound } from '../runs/run.errors.js';
import { isRunId } from '../runs/machine/new-id.js';
import { addChunk, EMPTY_LOG, type LogRow, type LogState } from './add-chunk.js';
import { LOG_LIMITS } from './log-limits.js';
import type { LogChunk } from './log-line.js';
import { LogMetrics } from './log-metrics.js';
import { packLines } from './log-packing.js';
import { LogChunkRefused, LogStoreOverloaded } from './run-logs.errors.js';
import { RunLogRepository, type NewRow } from './run-log.repository.js';

/** Attempts to store a chunk while other requests change the log. */
const TRIES = 5;

export interface ChunkAddress {
  readonly runId: string;
  readonly attempt: number;
  readonly workerId: string;
  readonly chunk: number;
}

/** Adds chunks to logs, a bounded number at a time; a bounded number of bytes waits. */
@Injectable()
export class LogWriter {
  readonly #semaphore = new Semaphore(LOG_LIMITS.maxWriting);
  #waitingBytes = 0;

  constructor(
    private readonly repository: RunLogRepository,
    private readonly metrics: LogMetrics,
    private readonly settings: Settings,
  ) {}

  /**
   * Stores a chunk, unless it is stored already, and returns the committed state of the log.
   * @throws RunNotFound; LogChunkRefused for an unexpected chunk or worker; LogStoreOverloaded
   */
  async add(address: ChunkAddress, chunk: LogChunk): Promise<LogState> {
    if (chunk.lines.length === 0 && !chunk.isLast) {
      throw new InvalidRequest(VALIDATION_FAILED, ['lines must not be empty unless is_last is true']);
    }
    if (!isRunId(address.runId)) throw new RunNotFound(address.runId);
    const bytes = chunk.lines.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    if (this.#waitingBytes > 0 && this.#waitingBytes + bytes > LOG_LIMITS.maxWaitingBytes) {
      this.metrics.refusedChunks.inc();
      throw new LogStoreOverloaded();
    }
    this.#waitingBytes += bytes;
    try {
      return await this.#semaphore.run(() => this.#store(address, chunk, bytes));
    } finally {
      this.#waitingBytes -= bytes;
    }
  }

  async #store(address: ChunkAddress, chunk: LogChunk, textBytes: number): Promise<LogState> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const stored = await this.#readState(address);
      const state = stored ?? EMPTY_LOG;
      if (address.chunk < state.nextChunk) return state;
      if (address.chunk > state.nextChunk) {
        throw new LogChunkRefused(
          `Chunk ${address.chunk} is not the next one; chunk ${state.nextChunk} is expected`,
        );
      }
      if (stored === null) {
        await this.repository.open(address, address.workerId);
        // Another worker may have opened the log at the same time: read whose it is.
        continue;
      }
      const change = addChunk(state, chunk, this.settings.logLimitBytes);
      if ('refusal' in change) throw new LogChunkRefused(change.refusal);
      const packed = await packRows(change.rows);
      if (await this.repository.append(address, change, packed)) {
        this.metrics.chunks.inc();
        this.metrics.textBytes.inc(textBytes);
        this.metrics.packedBytes.inc(packed.reduce((sum, { lines }) => sum + lines.length, 0));
        return change.state;
      }
    }
    throw new LogStoreOverloaded();
  }

  async #readState({ runId, attempt, workerId }: ChunkAddress): Promise<LogState | null> {
    const status = await this.repository.findStatus(runId, attempt);
    if (status === null) throw new RunNotFound(runId);
    if (status.attempt === null) throw new LogChunkRefused(`Run '${runId}' has no attempt ${attempt}`);
    // Only the worker that opened the log writes it, even if an admin assigns the attempt to another one.
    if ((status.log?.workerId ?? status.workerId) !== workerId) {
      throw new LogChunkRefused(`Attempt ${attempt} of run '${runId}' was not assigned to this worker`);
    }
    return status.log?.state ?? null;
  }
}

/** Packs one row after the other, to leave threads of the pool to others. */
async function packRows(rows: readonly LogRow[]): Promise<NewRow[]> {
  const packed: NewRow[] = [];
  for (const { start, lines, textBytes, weightBefore } of rows) {
    packed.push({
      firstLine: start.line,
      lineCount: lines.length,
      textBytes,
      bytesBefore: start.bytes,
      unknownGapsBefore: start.unknownGaps,
      weightBefore,
      lines: await packLines(lines),
    });
  }
  return packed;
}
