import type { ContainerExit } from '../runtime/runtime.js';
import { storable } from '../service-api/service-api.js';

/** Limit of error_message, in bytes of UTF-8. */
export const MAX_MESSAGE_BYTES = 4096;

export function failureSummary(exit: ContainerExit, ramMb: number): string {
  const limit = ramMb > 0 ? ` of ${ramMb} MB` : '';
  const why = exit.outOfMemory ? ` (ended because it reached its memory limit${limit})` : '';
  return `The container ended with exit code ${exit.exitCode}${why}`;
}

/** Less of a line says nothing, in bytes. */
const MIN_PART = 64;

/** The summary and the container's last lines, clipped to 4 KiB: without the oldest lines, and only the end of one that is too long. */
export function failureMessage(summary: string, tail: readonly string[]): string {
  if (tail.length === 0) return `${summary}. It printed no lines besides events.`;
  const intro = `${summary}. Its last log lines:`;
  let room = MAX_MESSAGE_BYTES - Buffer.byteLength(intro);
  const kept: string[] = [];
  for (const line of tail.map(storable).toReversed()) {
    const bytes = Buffer.byteLength(line) + 1;
    if (bytes > room) {
      if (room > MIN_PART) kept.push(`...${lastBytes(line, room - 4)}`);
      break;
    }
    kept.push(line);
    room -= bytes;
  }
  return [intro, ...kept.toReversed()].join('\n');
}

/** Makes any text fit for error_message: storable, at most 4 KiB. */
export function clipMessage(text: string): string {
  const clean = storable(text);
  if (Buffer.byteLength(clean) <= MAX_MESSAGE_BYTES) return clean;
  const bytes = Buffer.from(clean).subarray(0, MAX_MESSAGE_BYTES - 3);
  return `${bytes.toString().replace(/\uFFFD+$/, '')}...`;
}

function lastBytes(text: string, max: number): string {
  return Buffer.from(text)
    .subarray(-max)
    .toString()
    .replace(/^\uFFFD+/, '');
}
