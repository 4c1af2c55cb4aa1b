/** Reasons by the system's error code. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'another program listens there already'],
  ['EACCES', 'this user may not; ports below 1024 are often for root only'],
  ['EADDRNOTAVAIL', 'this machine does not have that address'],
  ['ENOTFOUND', 'no such host is known'],
]);

/** The service cannot listen on its address. */
export class AddressUnusable extends Error {
  constructor(host: string, port: number, cause: unknown) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined;
    const reason = REASONS.get(code ?? '') ?? (cause instanceof Error ? cause.message : String(cause));
    super(`cannot listen on ${host}:${port}: ${reason} (--host, SERVICE_HOST; --port, SERVICE_PORT)`, {
      cause,
    });
    this.name = 'AddressUnusable';
  }
}
