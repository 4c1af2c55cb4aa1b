import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { RunLogRowEntity } from '../database/entities/run-log.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { rows } from '../database/sql/sql.js';
import type { LogPosition } from './log-line.js';
import type { LogId } from './run-log.repository.js';

/** A stored row; its lines are packed. */
export interface StoredRow {
  readonly start: LogPosition;
  readonly end: LogPosition;
  readonly lines: Buffer;
}

const LOG_ROWS = new EntityTable(RunLogRowEntity);
const COLUMNS = LOG_ROWS.except('runId', 'attempt', 'weightBefore');

/** Rows, and bytes of text, that one statement reads at most; at least one row. */
const MAX_ROWS = 256;
const MAX_BYTES = 1024 * 1024;

@Injectable()
export class LogRowRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** Rows from the one that holds a line, or else from the first after the line; oldest first. */
  listFrom(log: LogId, line: number): Promise<StoredRow[]> {
    return this.#list(
      log,
      line,
      `b.first_line >= coalesce(
                    (select holding.first_line
                       from (
                         select first_line, line_count
                           from ${LOG_ROWS.name}
                          where run_id = $1::uuid
                            and attempt = $2::integer
                            and first_line <= $3::bigint
                          order by first_line desc
                          limit 1
                       ) holding
                      where holding.first_line + holding.line_count > $3::bigint),
                    $3::bigint)`,
      'asc',
    );
  }

  /** Rows that begin before a line, newest first. */
  listBefore(log: LogId, line: number): Promise<StoredRow[]> {
    return this.#list(log, line, 'b.first_line < $3::bigint', 'desc');
  }

  /** Number of lines that are stored. */
  async countLines({ runId, attempt }: LogId): Promise<number> {
    const [row] = await rows<{ readonly count: string }>(
      this.dataSource,
      `select coalesce(sum(line_count), 0) as count
         from ${LOG_ROWS.name}
        where run_id = $1::uuid
          and attempt = $2::integer`,
      [runId, attempt],
    );
    return Number(row?.count);
  }

  async #list(
    { runId, attempt }: LogId,
    line: number,
    condition: string,
    order: 'asc' | 'desc',
  ): Promise<StoredRow[]> {
    const found = await rows<Pick<RunLogRowEntity, (typeof COLUMNS)[number]>>(
      this.dataSource,
      `select ${LOG_ROWS.select('r', COLUMNS)}
         from (
           select b.*,
                  sum(b.text_bytes) over (
                    order by b.first_line ${order} rows between unbounded preceding and 1 preceding
                  ) as bytes_in_front
             from ${LOG_ROWS.name} b
            where b.run_id = $1::uuid
              and b.attempt = $2::integer
              and ${condition}
            order by b.first_line ${order}
            limit ${MAX_ROWS}
         ) r
        where coalesce(r.bytes_in_front, 0) < $4::bigint
        order by r.first_line ${order}`,
      [runId, attempt, line, MAX_BYTES],
    );
    return found.map(({ firstLine, lineCount, bytesBefore, textBytes, unknownGapsBefore, lines }) => {
      const start = {
        line: Number(firstLine),
        bytes: Number(bytesBefore),
        unknownGaps: Number(unknownGapsBefore),
      };
      const end = { ...start, line: start.line + lineCount, bytes: start.bytes + Number(textBytes) };
      return { start, end, lines };
    });
  }
}
