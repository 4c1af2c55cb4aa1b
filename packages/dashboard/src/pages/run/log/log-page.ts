import { toApiError } from '../../../api/answers.js';
import type { LongshoreClient, Schemas } from '../../../api/use-api.js';

/** A line of a log, or a gap where lines are missing. */
export type LogEntry = Schemas['LogLine'] | Schemas['LogGap'];

/** Which page of a log: the newest lines, or those behind or in front of a cursor. */
export interface LogQuery {
  readonly attempt: number;
  readonly limit?: number;
  readonly tail?: number;
  readonly after?: string;
  readonly before?: string;
  readonly contains?: string;
}

/** A page of a log, or the stretch of it that a tab holds. */
export interface LogPage {
  readonly entries: readonly LogEntry[];
  /** Cursor in front of the first entry. */
  readonly before: string;
  readonly hasOlder: boolean;
  /** Cursor behind the last entry. */
  readonly after: string;
  /** Whether it holds the newest line that was known when it was read. */
  readonly isAtEnd: boolean;
  /** Nothing will follow. */
  readonly isComplete: boolean;
  /** Number of lines that were printed and are not stored; 0 while the log is not complete. */
  readonly leftOut: number;
}

/** Reads pages of one log. */
export type ReadLog = (query: Omit<LogQuery, 'attempt'>, signal: AbortSignal) => Promise<LogPage>;

/** Reads a page. @throws ApiError, Unreachable */
export async function readLogPage(
  api: LongshoreClient,
  id: string,
  query: LogQuery,
  signal: AbortSignal,
): Promise<LogPage> {
  const { data, error, response } = await api.GET('/runs/{id}/logs', {
    params: { path: { id }, query },
    parseAs: 'text',
    signal,
  });
  if (!response.ok) throw toApiError(response.status, error);
  const { headers } = response;
  return {
    // An answer without a body has no data.
    entries: (data ?? '')
      .split('\n')
      .slice(0, -1)
      .map((line): LogEntry => JSON.parse(line)),
    before: headers.get('X-Log-Previous-Cursor') ?? '',
    hasOlder: headers.get('X-Log-Has-Previous') === 'true',
    after: headers.get('X-Log-Next-Cursor') ?? '',
    isAtEnd: headers.get('X-Log-Has-More') !== 'true',
    isComplete: headers.get('X-Log-Complete') === 'true',
    leftOut: Number(headers.get('X-Log-Lines-Left-Out')),
  };
}

/** The whole log as text, page by page. @throws ApiError, Unreachable */
export async function downloadLog(api: LongshoreClient, id: string, attempt: number): Promise<Blob> {
  const parts: string[] = [];
  for (let after: string | undefined; ;) {
    const { data, error, response } = await api.GET('/runs/{id}/logs', {
      params: { path: { id }, query: { attempt, limit: 5000, ...(after === undefined ? {} : { after }) } },
      headers: { Accept: 'text/plain' },
      parseAs: 'text',
    });
    if (!response.ok) throw toApiError(response.status, error);
    parts.push(data ?? '');
    after = response.headers.get('X-Log-Next-Cursor') ?? undefined;
    if (response.headers.get('X-Log-Has-More') !== 'true') return new Blob(parts, { type: 'text/plain' });
  }
}
