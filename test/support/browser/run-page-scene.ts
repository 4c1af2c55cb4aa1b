import assert from 'node:assert/strict';
import type { RunSteps } from '../runs/run-steps.js';

/** Bytes of text in a chunk, below the limit of a request's body. */
const CHUNK_TEXT = 900_000;

/** Lines that somebody prints. */
export interface PrintedLines {
  readonly run: string;
  readonly attempt?: number;
  readonly worker?: string;
  readonly lines: readonly string[];
  /** Lines whose index is in it came from stderr. */
  readonly stderr?: ReadonlySet<number>;
  readonly isLast?: boolean;
}

/** Sends the log of an attempt to the service as a worker does. */
export class LogSteps {
  readonly #next = new Map<string, { chunk: number; line: number }>();

  constructor(private readonly steps: RunSteps) {}

  /** Sends lines behind those that were sent before, in as many chunks as they need. */
  async print(printed: PrintedLines): Promise<void> {
    const { run, attempt = 1, worker = 'w', lines, stderr = new Set<number>(), isLast = true } = printed;
    const place = this.#next.get(`${run} ${attempt}`) ?? { chunk: 0, line: 0 };
    let from = 0;
    do {
      let to = from;
      for (let size = 0; to < lines.length && to - from < 5000 && size < CHUNK_TEXT; to += 1) {
        size += (lines[to] ?? '').length + 80;
      }
      const t = new Date().toISOString();
      const answer = await this.steps.send('PUT', `/runs/${run}/logs/${place.chunk}`, {
        headers: { 'X-Worker-Id': worker, 'X-Run-Attempt': String(attempt) },
        body: {
          first_line: place.line,
          lines: lines.slice(from, to).map((text, n) => ({
            t,
            stream: stderr.has(from + n) ? 'stderr' : 'stdout',
            text,
          })),
          is_last: isLast && to >= lines.length,
        },
      });
      assert.equal(answer.status, 200, answer.text);
      place.chunk += 1;
      place.line += to - from;
      from = to;
    } while (from < lines.length);
    this.#next.set(`${run} ${attempt}`, place);
  }
}

/** `line 0` and on. */
export function numbered(count: number, from = 0): string[] {
  return Array.from({ length: count }, (_, n) => `line ${from + n}`);
}
