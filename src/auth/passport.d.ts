/** The part of passport that the service uses; the package has no types of its own. */
declare module 'passport' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  /** One set of strategies. */
  class Authenticator {
    use(name: string, strategy: object): this;
    /** Middleware that tries the strategies in turn; `decided` gets the first success, or false. */
    authenticate(
      names: readonly string[],
      options: { readonly session: false },
      decided: (error: unknown, user: unknown) => void,
    ): (request: IncomingMessage, response: ServerResponse, next: (error: unknown) => void) => void;
  }

  const passport: { readonly Authenticator: typeof Authenticator };
  export default passport;
}
