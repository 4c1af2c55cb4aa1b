import { randomFillSync } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

const ID_BYTES = 16;
const pool = new Uint8Array(ID_BYTES * 256);
let used = pool.length;
let msecs = 0;
let seq = 0;

/** A new id of a run or an attempt: UUID version 7, greater than all earlier ids of this process. */
export function newId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.subarray(used, (used += ID_BYTES));
  const now = Date.now();
  if (now > msecs) {
    msecs = now;
    // A random start, of bytes that the rest of the id does not use.
    seq = random.subarray(0, 3).reduce((number, byte) => number * 256 + byte, 0) * 64;
  } else {
    seq += 1;
  }
  return uuidv7({ random, msecs, seq });
}

/** True when the text has the form of a run's id. */
export function isRunId(text: string): boolean {
  return UUID.test(text);
}

/**
 * True when the service may have made the run's id: it is of version 7, and its time has come, or had come before the clock was put
 * back. @param id in the form of a run's id
 */
export function isIssuedId(id: string): boolean {
  const time = Number.parseInt(id.slice(0, 13).replace('-', ''), 16);
  return id[14] === '7' && time <= Math.max(Date.now(), msecs);
}
