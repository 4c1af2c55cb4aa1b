import assert from 'node:assert/strict';
import type { Send, TestAnswer } from '../app/test-app.js';

/** A chunk as tests write it: texts become lines of stdout, a millisecond apart. */
export interface ChunkText {
  readonly firstLine: number;
  readonly texts: readonly string[];
  readonly isLast?: boolean;
  readonly skippedBytes?: number;
  readonly cursor?: string;
}

/** Who sends a chunk, and of what. */
export interface LogSender {
  readonly run: string;
  readonly attempt?: number;
  readonly worker?: string;
}

/** A line or a gap as it is read. */
export interface ReadEntry {
  readonly cursor: string;
  readonly line: number;
  readonly t?: string;
  readonly stream?: string;
  readonly text?: string;
  readonly continued?: true;
  readonly gap?: { readonly lines: number; readonly bytes: number | null };
}

/** A page of a log, taken apart. */
export interface ReadLog {
  readonly entries: readonly ReadEntry[];
  readonly next: string;
  readonly previous: string;
  readonly hasPrevious: boolean;
  readonly isComplete: boolean;
  readonly hasMore: boolean;
  readonly attempt: number;
  /** Of a complete log. */
  readonly lines: { readonly printed: number; readonly leftOut: number } | null;
}

const BEGIN = Date.parse('2026-01-02T03:04:05.000Z');

/** Sends a chunk; the answer is whatever it is. */
export function putChunk(
  send: Send,
  { run, attempt = 1, worker = 'w' }: LogSender,
  chunk: number | string,
  { firstLine, texts, isLast = false, skippedBytes, cursor }: ChunkText,
): Promise<TestAnswer> {
  const lines = texts.map((text, n) => ({
    t: new Date(BEGIN + firstLine + n).toISOString(),
    stream: 'stdout',
    text,
  }));
  return send('PUT', `/runs/${run}/logs/${chunk}`, {
    headers: { 'X-Worker-Id': worker, 'X-Run-Attempt': String(attempt) },
    body: {
      first_line: firstLine,
      lines,
      is_last: isLast,
      ...(skippedBytes === undefined ? {} : { skipped_bytes: skippedBytes }),
      ...(cursor === undefined ? {} : { cursor }),
    },
  });
}

/** Reads one page. @param query such as `after=...&limit=5` */
export async function readLog(send: Send, run: string, query = ''): Promise<ReadLog> {
  const answer = await send('GET', `/runs/${run}/logs${query === '' ? '' : `?${query}`}`);
  assert.equal(answer.status, 200, answer.text);
  return logOf(answer);
}

/** What a page says. */
export function logOf({ text, headers }: TestAnswer): ReadLog {
  return {
    entries: text
      .split('\n')
      .slice(0, -1)
      .map((line): ReadEntry => JSON.parse(line)),
    next: headers.get('x-log-next-cursor') ?? assert.fail('a cursor to go on with'),
    previous: headers.get('x-log-previous-cursor') ?? assert.fail('a cursor to go back with'),
    hasPrevious: headers.get('x-log-has-previous') === 'true',
    isComplete: headers.get('x-log-complete') === 'true',
    hasMore: headers.get('x-log-has-more') === 'true',
    attempt: Number(headers.get('x-log-attempt')),
    lines: headers.has('x-log-lines')
      ? { printed: Number(headers.get('x-log-lines')), leftOut: Number(headers.get('x-log-lines-left-out')) }
      : null,
  };
}

/** Reads page after page until there is no more right now. */
export async function readWhole(send: Send, run: string, query = ''): Promise<ReadEntry[]> {
  const entries: ReadEntry[] = [];
  for (let place = ''; ;) {
    const page = await readLog(send, run, [query, place].filter((part) => part !== '').join('&'));
    entries.push(...page.entries);
    if (!page.hasMore) return entries;
    place = `after=${page.next}`;
  }
}

/** Texts of lines, and `-n` for a gap of n lines. */
export function told(entries: readonly ReadEntry[]): string[] {
  return entries.map(({ text, gap }) => (gap === undefined ? (text ?? '?') : `-${gap.lines}`));
}

/** @throws AssertionError unless the entries follow each other without a hole or a repeat. @returns the line behind them */
export function assertDense(entries: readonly ReadEntry[], from = 0): number {
  let next = from;
  for (const { line, gap } of entries) {
    assert.equal(line, next, 'the line that comes next');
    next += gap?.lines ?? 1;
  }
  return next;
}
