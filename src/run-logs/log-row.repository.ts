import { Injectable } from '@nestjs/common';
import { RunLogRowEntity } from '../database/entities/run-log.entity.js';
import { EntityTable } from '../database/entity-table.js';
import { rows, type SqlExecutor } from '../database/sql.js';
import type { LogPoint } from './log-point.js';
import type { LogId } from './run-log.repository.js';

/** A row as it is read. */
export interface ReadRow {
  readonly start: LogPoint;
  readonly end: LogPoint;
  readonly textBytes: number;
  readonly lines: Buffer;
}

const LOG_ROWS = new EntityTable(RunLogRowEntity);
const READ = LOG_ROWS.except('runId', 'attempt', 'weightBefore');
const LINE_COLUMNS = LOG_ROWS.select('r', READ);

type LineRow = Readonly<Pick<RunLogRowEntity, (typeof READ)[number]>>;

/** Rows read by one statement at most. */
const ROWS_AT_ONCE = 256;

/** SQL by which the lines of logs are read. */
@Injectable()
export class LogRowRepository {
  /**
   * Rows in their order, from the one that holds a line or else the first behind it.
   * @param line number of the line
   * @param maxBytes text after which the stretch ends; one row at least
   */
  async listFrom(
    executor: SqlExecutor,
    { runId, attempt }: LogId,
    line: number,
    maxBytes: number,
  ): Promise<ReadRow[]> {
    const found = await rows<LineRow>(
      executor,
      `select ${LINE_COLUMNS}
         from (
           select b.*,
                  sum(b.text_bytes) over (
                    order by b.first_line rows between unbounded preceding and 1 preceding
                  ) as bytes_in_front
             from ${LOG_ROWS.name} b
            where b.run_id = $1::uuid
              and b.attempt = $2::integer
              and b.first_line >= coalesce(
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
                    $3::bigint)
            order by b.first_line
            limit ${ROWS_AT_ONCE}
         ) r
        where coalesce(r.bytes_in_front, 0) < $4::bigint
        order by r.first_line`,
      [runId, attempt, line, maxBytes],
    );
    return found.map(toReadRow);
  }

  /**
   * Rows that begin before a line, newest first.
   * @param maxBytes text after which the stretch ends; one row at least
   */
  async listBefore(
    executor: SqlExecutor,
    { runId, attempt }: LogId,
    line: number,
    maxBytes: number,
  ): Promise<ReadRow[]> {
    const found = await rows<LineRow>(
      executor,
      `select ${LINE_COLUMNS}
         from (
           select b.*,
                  sum(b.text_bytes) over (
                    order by b.first_line desc rows between unbounded preceding and 1 preceding
                  ) as bytes_in_front
             from ${LOG_ROWS.name} b
            where b.run_id = $1::uuid
              and b.attempt = $2::integer
              and b.first_line < $3::bigint
            order by b.first_line desc
            limit ${ROWS_AT_ONCE}
         ) r
        where coalesce(r.bytes_in_front, 0) < $4::bigint
        order by r.first_line desc`,
      [runId, attempt, line, maxBytes],
    );
    return found.map(toReadRow);
  }
}

function toReadRow(row: LineRow): ReadRow {
  const start = {
    line: Number(row.firstLine),
    bytes: Number(row.bytesBefore),
    unknownGaps: Number(row.unknownGapsBefore),
  };
  const textBytes = Number(row.textBytes);
  const end = { ...start, line: start.line + row.lineCount, bytes: start.bytes + textBytes };
  return { start, end, textBytes, lines: row.lines };
}
