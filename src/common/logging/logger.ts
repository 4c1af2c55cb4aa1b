import { isatty } from 'node:tty';
import { pino, type DestinationStream, type Logger } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Settings } from '../../config/settings.js';
import { toLogText, toLogValue, type LogValue } from './log-value.js';
import { standardOutput } from '@longshore/common/line-output';
import { currentSpan } from '@longshore/common/tracing/current-span';

/** Fields beside the message; an error goes under `error`. Names that a line needs for itself get a trailing `_`. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface LogTarget {
  readonly destination: DestinationStream;
  /** Lines for people instead of JSON. */
  readonly pretty: boolean;
}

const PINO_LEVELS = { debug: 'debug', info: 'info', warning: 'warn', error: 'error' } as const;

const RESERVED = new Set(['level', 'time', 'pid', 'msg', 'trace_id', 'span_id', 'context']);

function toFields(fields: LogFields | undefined): Record<string, LogValue> {
  const result: Record<string, LogValue> = {};
  for (const [name, value] of Object.entries(toLogValue({ ...fields }) ?? {})) {
    result[RESERVED.has(name) ? `${name}_` : name] = value;
  }
  return result;
}

/**
 * The log of the process: one line per call, with level, ISO time, message, the ids of the current span if it is traced,
 * and the given fields. Text from outside cannot break a line or control a terminal, passwords in connection strings are
 * masked, and long values are cut.
 */
export class Log {
  constructor(private readonly lines: Logger) {}

  debug(message: string, fields?: LogFields): void {
    this.#write('debug', message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#write('info', message, fields);
  }

  /** The service recovers by itself. */
  warn(message: string, fields?: LogFields): void {
    this.#write('warn', message, fields);
  }

  /** A person must act. */
  error(message: string, fields?: LogFields): void {
    this.#write('error', message, fields);
  }

  /** A log whose lines also name the part of the service that wrote them. */
  child(context: string): Log {
    return new Log(this.lines.child({ context: toLogText(context) }));
  }

  /** No work depends on a log line: fields that cannot be read, such as a getter that throws, are left out. */
  #write(level: 'debug' | 'info' | 'warn' | 'error', message: string, fields: LogFields | undefined): void {
    // Debug lines are frequent: their fields are copied only when the level is on.
    if (!this.lines.isLevelEnabled(level)) return;
    let values: Record<string, LogValue>;
    try {
      values = toFields(fields);
    } catch {
      values = { fields: '[unreadable]' };
    }
    this.lines[level](values, toLogText(message));
  }
}

/** A line break in a value must not look like the start of another line. */
function toOneLine(value: unknown): string {
  return String(value).replaceAll('\n', String.raw`\n`);
}

function prettyStream(target: DestinationStream): DestinationStream {
  const prettify = prettyFactory({
    colorize: true,
    singleLine: true,
    ignore: 'pid',
    translateTime: 'SYS:HH:MM:ss.l',
    errorLikeObjectKeys: ['error'],
    messageFormat: (line, messageKey) => toOneLine(line[messageKey]),
    // Fields of these names are printed as they are instead of as JSON.
    customPrettifiers: { name: toOneLine, hostname: toOneLine, caller: toOneLine },
  });
  return { write: (line) => target.write(prettify(line)) };
}

/**
 * Creates the log of a process: JSON lines, or human-readable lines when standard output is a terminal. Lines that standard
 * output does not take are dropped, and said once writing works again.
 */
export function createLog({ logLevel }: Pick<Settings, 'logLevel'>, target?: LogTarget): Log {
  const stream = target?.destination ?? standardOutput;
  const pretty = target?.pretty ?? isatty(1);
  const lines = pino(
    {
      level: PINO_LEVELS[logLevel],
      base: { pid: process.pid },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: pretty || label !== 'warn' ? label : 'warning' }) },
      mixin: () => {
        const span = currentSpan();
        return span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId };
      },
    },
    pretty ? prettyStream(stream) : stream,
  );
  if (target === undefined) {
    // Said at every log level.
    const gaps = new Log(lines.child({}, { level: 'warn' }));
    standardOutput.reportGaps((count) =>
      gaps.warn('log lines were dropped: they could not be written', { lines: count }),
    );
  }
  return new Log(lines);
}
