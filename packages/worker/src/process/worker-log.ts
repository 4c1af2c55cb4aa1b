import { isatty } from 'node:tty';
import { pino, stdTimeFunctions, type DestinationStream, type Logger } from 'pino';
import { prettyFactory } from 'pino-pretty';
import { escapeUnsafe } from '@longshore/common/json/text';
import { standardOutput } from '@longshore/common/line-output';
import type { WorkerSettings } from '../settings/worker-settings.js';

export interface LogTarget {
  readonly destination: DestinationStream;
  /** Readable lines instead of JSON. */
  readonly pretty: boolean;
}

/**
 * The worker's log on standard output: lines of JSON, or readable lines on a terminal. Text from outside cannot break a
 * line or control a terminal. Lines that cannot be written are dropped, and said once writing works again.
 */
export function createWorkerLog(
  { workerId, logLevel }: Pick<WorkerSettings, 'logLevel'> & { readonly workerId: string },
  target?: LogTarget,
): Logger {
  const { destination, pretty } = target ?? { destination: standardOutput, pretty: isatty(1) };
  const logger = pino(
    {
      level: logLevel,
      base: { worker: workerId },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    pretty ? prettyStream(destination) : { write: (line) => destination.write(escapeUnsafe(line)) },
  );
  if (target === undefined) {
    // Said at every log level.
    const gaps = logger.child({}, { level: 'warn' });
    standardOutput.reportGaps((lines) =>
      gaps.warn({ lines }, 'log lines were dropped: they could not be written'),
    );
  }
  return logger;
}

function escapeValue(_: string, value: unknown): unknown {
  return typeof value === 'string' ? escapeUnsafe(value) : value;
}

function prettyStream(destination: DestinationStream): DestinationStream {
  const prettify = prettyFactory({
    colorize: true,
    singleLine: true,
    ignore: 'worker',
    translateTime: 'SYS:HH:MM:ss',
    // The other fields are printed as JSON.
    messageFormat: (line, messageKey) => String(line[messageKey]).replaceAll('\n', String.raw`\n`),
  });
  return {
    write: (line) => {
      const entry: unknown = JSON.parse(line, escapeValue);
      destination.write(prettify(entry));
    },
  };
}
