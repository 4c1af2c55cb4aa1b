import { InvalidRequest } from '../common/http/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { RUN_ATTEMPT_HEADER, WORKER_ID_HEADER } from '../runs/storage/reporter.js';
import type { Reporter } from '../runs/machine/run-command.js';
import { LAST_CHUNK } from './log-shapes.js';

/** Which chunk of which log, and who sends it. */
export interface ChunkAddress {
  readonly runId: string;
  readonly attempt: number;
  readonly workerId: string;
  readonly chunk: number;
}

const NUMBER = /^(?:0|[1-9][0-9]{0,9})$/;

/** @throws InvalidRequest when the number of the chunk is none, or a header is missing */
export function readChunkAddress(
  runId: string,
  chunk: string,
  { workerId, attempt }: Reporter,
): ChunkAddress {
  const number = NUMBER.test(chunk) ? Number(chunk) : Infinity;
  const problems = [
    ...(number <= LAST_CHUNK ? [] : [`chunk must be an integer from 0 to ${LAST_CHUNK}`]),
    ...(workerId === undefined ? [`header ${WORKER_ID_HEADER} is required`] : []),
    ...(attempt === undefined ? [`header ${RUN_ATTEMPT_HEADER} is required`] : []),
  ];
  if (problems.length > 0 || workerId === undefined || attempt === undefined) {
    throw new InvalidRequest(VALIDATION_FAILED, problems);
  }
  return { runId, attempt, workerId, chunk: number };
}
