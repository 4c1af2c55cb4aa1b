import { setImmediate as letOthersRun } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { EventSender } from '../execution/event-sender.js';
import { errorText } from '../execution/failure-message.js';
import { parseLogEvent } from './log-events.js';
import type { LogTail } from './log-tail.js';
import type { LogLine } from '../runtime/runtime.js';

/** How long lines are read in one go, in milliseconds: heartbeats and timers get their turn in between. */
const SLICE_MS = 10;

const MAX_LOGGED = 2000;

/** Where the lines of a container go. */
export interface LogSinks {
  readonly logger: Logger;
  readonly tail: LogTail;
  /** Takes every line, or part of one, at once. */
  readonly ship: (line: LogLine) => void;
  readonly sender: EventSender;
  /** Aborted when nobody is interested in events any more. */
  readonly signal: AbortSignal;
}

/**
 * Reads a container's log to its end: every line is shipped and kept for the tail, and the events among them are
 * forwarded. Reading stops while too many events wait for the service. A log that breaks off is no reason for the run to
 * fail.
 */
export async function readLog(
  lines: AsyncIterable<LogLine>,
  { logger, tail, ship, sender, signal }: LogSinks,
): Promise<void> {
  let sliceEnd = performance.now() + SLICE_MS;
  try {
    for await (const line of lines) {
      const { stream, text, part } = line;
      if (logger.isLevelEnabled('debug'))
        logger.debug({ stream, line: text.slice(0, MAX_LOGGED) }, 'container log');
      ship(line);
      if (part !== 'rest') tail.push(text);
      const event = part === undefined && !signal.aborted ? parseLogEvent(text) : null;
      if (event !== null) await sender.push(event);
      // Lines that are there already would be read without ever letting a timer run.
      if (performance.now() >= sliceEnd) {
        await letOthersRun();
        sliceEnd = performance.now() + SLICE_MS;
      }
    }
  } catch (error) {
    logger.warn({ error: errorText(error) }, 'the log of the container broke off');
  }
}
