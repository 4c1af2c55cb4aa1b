import type { IncomingMessage, ServerResponse } from 'node:http';
import { BodyTooLarge } from '../errors/domain-error.js';

/** The client went away before its request was complete: there is nobody to answer. */
export class ClientGone extends Error {
  constructor() {
    super('client closed the connection before the request was complete');
    this.name = 'ClientGone';
  }
}

const reading = new WeakSet<IncomingMessage>();
const heldBack = new WeakSet<IncomingMessage>();

/** Whether the service is still reading this request's body before acting on it. */
export function isReadingBody(request: IncomingMessage): boolean {
  return reading.has(request);
}

/** Notes that the client waits for `100 Continue` before it sends its body. */
export function holdBackBody(request: IncomingMessage): void {
  heldBack.add(request);
}

/** Whether the client still waits for `100 Continue` and so sends no body. */
export function isBodyHeldBack(request: IncomingMessage): boolean {
  return heldBack.has(request);
}

/**
 * Reads a request's body, asking for it first if the client waits to be asked.
 * @param maxBytes the largest body taken
 * @throws BodyTooLarge as soon as more arrives; the rest is read and dropped
 * @throws ClientGone when the client disappears meanwhile
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
    const settle = (): void => {
      reading.delete(request);
      request.off('data', onData).off('end', onEnd).off('close', onGone);
    };
    const onData = (chunk: Uint8Array): void => {
      size += chunk.length;
      if (size > maxBytes) {
        settle();
        request.resume();
        reject(new BodyTooLarge(maxBytes));
      } else {
        chunks.push(chunk);
      }
    };
    const onEnd = (): void => {
      settle();
      const [only] = chunks;
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, size));
    };
    const onGone = (): void => {
      settle();
      reject(new ClientGone());
    };
    // A broken connection also emits `error`; `close` follows it, and unheard it would be thrown.
    request.on('error', ignore);
    if (request.destroyed) {
      onGone();
      return;
    }
    reading.add(request);
    request.on('data', onData).on('end', onEnd).on('close', onGone);
  });
}

function ignore(): void {
  // Nothing to do: `close` tells the reader.
}
