import { jsonText, lazyObject, ownText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Heartbeat, RunningOp } from './worker-pool.js';

/** Bytes of an object or a text in memory besides its content, about. */
const OVERHEAD = 48;

/** Bytes that a worker's description of itself takes in memory besides its running runs, about. */
export function bytesOfDescription({
  gpus,
  tags,
  capabilities,
  engine,
  notClaiming,
}: Omit<Heartbeat, 'runningOps'>): number {
  const texts = [
    ...tags,
    ...capabilities,
    ...notClaiming.map(({ message }) => message),
    ...(engine === null ? [] : [engine.name]),
  ];
  return gpus.reduce((sum, gpu) => sum + OVERHEAD + bytesOfTexts(gpu.tags), bytesOfTexts(texts));
}

/** Bytes that are left for the running runs of a worker. */
export function bytesForRuns(heartbeat: Heartbeat, maxBytes: number): number {
  return Math.max(0, maxBytes - bytesOfDescription(heartbeat));
}

/**
 * As much of the running runs as fits into the bytes: without their inputs and constraints where these do not fit, and
 * only the first of them where even that is too much. They are for display.
 */
export function fitRunningRuns(ops: readonly RunningOp[], maxBytes: number): readonly RunningOp[] {
  const full = ops.reduce(
    (sum, op) => sum + bytesOfRun(op) + jsonText(op.inputs).length + jsonText(op.constraints).length,
    0,
  );
  if (full <= maxBytes) {
    return ops.map((op) => ({ ...op, inputs: toOwn(op.inputs), constraints: toOwn(op.constraints) }));
  }
  let bytes = 0;
  const fitting = ops.findIndex((op) => (bytes += bytesOfRun(op)) > maxBytes);
  return ops
    .slice(0, fitting === -1 ? ops.length : fitting)
    .map(({ id, attempt, image }) => ({ id, attempt, image, inputs: {}, constraints: {} }));
}

/** The object without references to the body that it may be a part of. */
function toOwn(value: JsonObject): JsonObject {
  return lazyObject(ownText(jsonText(value)));
}

function bytesOfRun({ id, image }: RunningOp): number {
  return 2 * OVERHEAD + id.length + image.length;
}

function bytesOfTexts(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + OVERHEAD + text.length, 0);
}
