import type { Answer, ChunkAddress, HeldAttempt, LogChunk, LogPosition } from '../service-api/service-api.js';
import type { FakeRun } from './fake-run.js';

type Stored = Answer<LogPosition>;

/** The logs of a fake service. */
export class FakeLogs {
  private readonly chunks = new Map<string, LogChunk[]>();

  /** Texts of the lines of the attempt (1-based); `[n]` is a gap of n lines, `<end>` the end. */
  texts(runId: string, attempt = 1): string[] {
    const texts: string[] = [];
    let next = 0;
    for (const { firstLine, lines, isLast } of this.chunks.get(`${runId} ${attempt}`) ?? []) {
      if (firstLine > next) texts.push(`[${firstLine - next}]`);
      texts.push(...lines.map(({ text }) => text));
      next = firstLine + lines.length;
      if (isLast) texts.push('<end>');
    }
    return texts;
  }

  store({ runId, attempt, number }: ChunkAddress, chunk: LogChunk): Stored {
    const key = `${runId} ${attempt}`;
    const stored = this.chunks.get(key) ?? [];
    this.chunks.set(key, stored);
    const last = stored.at(-1);
    const { nextLine } = this.position(runId, attempt);
    if (number < stored.length) return { kind: 'ok', value: this.position(runId, attempt) };
    if (number > stored.length) return conflict(`Chunk ${stored.length} is expected`);
    if (last?.isLast === true) return conflict('The log has ended');
    if (chunk.firstLine < nextLine) return conflict(`Line ${nextLine} is expected`);
    if (chunk.lines.length === 0 && !chunk.isLast) return { kind: 'refused', status: 400, detail: 'Empty' };
    stored.push(chunk);
    return { kind: 'ok', value: this.position(runId, attempt) };
  }

  /** The attempts of the runs that the worker holds. */
  held(runs: Iterable<FakeRun>, workerId: string): HeldAttempt[] {
    return [...runs]
      .filter((run) => run.workerId === workerId && ['ASSIGNED', 'RUNNING'].includes(run.state))
      .map(({ id: runId, attempt }) => ({ runId, attempt, log: this.position(runId, attempt) }));
  }

  position(runId: string, attempt: number): LogPosition {
    const chunks = this.chunks.get(`${runId} ${attempt}`) ?? [];
    const last = chunks.at(-1);
    return {
      nextChunk: chunks.length,
      nextLine: last === undefined ? 0 : last.firstLine + last.lines.length,
      cursor: chunks.findLast(({ cursor }) => cursor !== undefined)?.cursor,
    };
  }
}

function conflict(detail: string): Stored {
  return { kind: 'refused', status: 409, detail };
}
