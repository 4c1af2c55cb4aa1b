/** Injection token of the HttpOptions. */
export const HTTP_OPTIONS = Symbol('HTTP_OPTIONS');

/** What the HTTP edge needs to know about this service. */
export interface HttpOptions {
  /** The largest request body that is taken, in bytes. */
  readonly maxBodyBytes: number;
}
