import { pino, stdTimeFunctions, type DestinationStream, type Logger } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { WorkerSettings } from './load-settings.js';

export interface LogTarget {
  readonly destination: DestinationStream;
  /** Readable lines instead of JSON. */
  readonly pretty: boolean;
}

const STDOUT: DestinationStream = { write: (line) => void process.stdout.write(line) };

/** The worker's log on standard output: lines of JSON, or readable lines on a terminal. */
export function createWorkerLog(
  { workerId, logLevel }: Pick<WorkerSettings, 'workerId' | 'logLevel'>,
  { destination, pretty }: LogTarget = { destination: STDOUT, pretty: process.stdout.isTTY },
): Logger {
  return pino(
    {
      level: logLevel,
      base: { worker: workerId },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    pretty ? prettyStream(destination) : destination,
  );
}

function prettyStream(destination: DestinationStream): DestinationStream {
  const prettify = prettyFactory({
    colorize: true,
    singleLine: true,
    ignore: 'worker',
    translateTime: 'SYS:HH:MM:ss',
  });
  return { write: (line) => destination.write(prettify(line)) };
}
