import type { IncomingMessage, ServerResponse } from 'node:http';
import { BodyTooLarge } from '../../errors/domain-error.js';

/** What a piece of a body costs beside its bytes: a client may send one byte at a time. */
const CHUNK_OVERHEAD = 256;

/** The client closed the connection before its request was complete. */
export class ClientGone extends Error {
  constructor() {
    super('client closed the connection before the request was complete');
    this.name = 'ClientGone';
  }
}

/**
 * What happens to the body of a request: the client waits for `100 Continue` before it sends it; it is being read; it was
 * refused while it was read, so that its rest is not wanted. A body of none of these has no entry.
 */
export const bodyStates = new WeakMap<IncomingMessage, 'held-back' | 'reading' | 'refused'>();

/**
 * Reads the body of a request; sends `100 Continue` if the client waits for it.
 * @param reserve called with the memory that the body occupies so far, in bytes; it may throw
 * @throws BodyTooLarge as soon as more than `maxBytes` arrive, or what `reserve` throws; the rest is read and dropped
 * @throws ClientGone
 */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  maxBytes: number,
  reserve: (bytes: number) => void,
): Promise<Uint8Array> {
  if (bodyStates.get(request) === 'held-back') response.writeContinue();
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const stop = (): void => {
      bodyStates.delete(request);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
    };
    const onData = (chunk: Uint8Array): void => {
      size += chunk.length;
      chunks.push(chunk);
      try {
        if (size > maxBytes) throw new BodyTooLarge(maxBytes);
        reserve(size + chunks.length * CHUNK_OVERHEAD);
      } catch (error) {
        stop();
        bodyStates.set(request, 'refused');
        request.resume();
        reject(error);
      }
    };
    const onEnd = (): void => {
      stop();
      const [only] = chunks;
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, size));
    };
    const onClose = (): void => {
      stop();
      reject(new ClientGone());
    };
    // `close` follows an `error`, which would be thrown if nothing listened to it.
    request.on('error', () => undefined);
    if (request.destroyed) {
      onClose();
      return;
    }
    bodyStates.set(request, 'reading');
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}
