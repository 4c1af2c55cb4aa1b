import { startBare } from '../servers/bare.mjs';
import { sender } from './http.mjs';
import { driveWithCpu, warmUp } from './load.mjs';
import { KEY } from '../servers/service.mjs';

/**
 * A server as a subject of `inTurn`, with the CPU that a request costs its process.
 * @param server what `startService` or `startBare` answers
 */
export function loadSubject(label, server, load) {
  return {
    label,
    warmUp: () => warmUp(server.url, load),
    round: () => driveWithCpu(server, load),
  };
}

/**
 * Starts a bare node:http server that answers what the service answers to a request.
 * @param request `[method, path, body]`
 */
export async function bareLike(service, request) {
  const { send, close } = sender(service.url, KEY, 1);
  try {
    return await startBare(await send(...request));
  } finally {
    close();
  }
}
