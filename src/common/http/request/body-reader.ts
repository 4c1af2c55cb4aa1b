import type { IncomingMessage, ServerResponse } from 'node:http';
import { BodyTooLarge } from '../errors/domain-error.js';

/** The client closed the connection before its request was complete. */
export class ClientGone extends Error {
  constructor() {
    super('client closed the connection before the request was complete');
    this.name = 'ClientGone';
  }
}

const reading = new WeakSet<IncomingMessage>();
const heldBack = new WeakSet<IncomingMessage>();

/** Whether the body of the request is being read. */
export function isReadingBody(request: IncomingMessage): boolean {
  return reading.has(request);
}

/** Notes that the client waits for `100 Continue` before it sends the body. */
export function holdBackBody(request: IncomingMessage): void {
  heldBack.add(request);
}

/** Whether the client still waits for `100 Continue`. */
export function isBodyHeldBack(request: IncomingMessage): boolean {
  return heldBack.has(request);
}

/**
 * Reads the body of a request; sends `100 Continue` if the client waits for it.
 * @throws BodyTooLarge as soon as more than `maxBytes` arrive; the rest is read and dropped
 * @throws ClientGone
 */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  maxBytes: number,
): Promise<Uint8Array> {
  if (heldBack.delete(request)) response.writeContinue();
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const stop = (): void => {
      reading.delete(request);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
    };
    const onData = (chunk: Uint8Array): void => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= maxBytes) return;
      stop();
      request.resume();
      reject(new BodyTooLarge(maxBytes));
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
    reading.add(request);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}
