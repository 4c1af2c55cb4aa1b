import { DomainError } from '../common/errors/domain-error.js';
import type { Scope } from '../config/key-settings.js';
import type { TagsAndCapabilities } from './access.js';

/** The request has no API key. */
export class MissingApiKey extends DomainError {
  readonly kind = 'unauthenticated';

  constructor() {
    super('Missing API key');
  }
}

/** The API key is unknown, revoked or expired, or not where it belongs. */
export class InvalidApiKey extends DomainError {
  readonly kind = 'unauthenticated';

  /** @param isMisplaced whether the only key is in `Authorization` without the scheme Bearer */
  constructor(isMisplaced = false) {
    super('Invalid API key', {
      errors: isMisplaced
        ? ['the key must be in the header X-API-Key: KEY, or in Authorization: Bearer KEY']
        : [],
    });
  }
}

/** The API key is valid, but lacks a scope that the route requires. */
export class MissingScope extends DomainError {
  readonly kind = 'forbidden';

  constructor(scope: Scope) {
    super(`API key lacks scope '${scope}'`);
  }
}

/** The key is bound to workers, and the route serves no such keys. */
export class RouteNotForBoundKeys extends DomainError {
  readonly kind = 'forbidden';

  constructor() {
    super('API key is bound to workers and cannot use this route');
  }
}

/** The key is bound to other workers. */
export class KeyOfOtherWorker extends DomainError {
  readonly kind = 'forbidden';

  constructor(workerId: string) {
    super(`API key is not bound to worker '${workerId}'`);
  }
}

/** Names in the message about tags and capabilities. */
const MAX_NAMED = 10;

/** A worker has, or a run demands, tags or capabilities to which the key is not bound. */
export class KeyOfOtherTags extends DomainError {
  readonly kind = 'forbidden';

  /** @param beyond those to which the key is not bound; at least one */
  constructor({ tags, capabilities }: TagsAndCapabilities) {
    const names = [
      ...tags.map((tag) => `tag '${tag}'`),
      ...capabilities.map((name) => `capability '${name}'`),
    ];
    const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
    super(`API key is not bound to ${names.slice(0, MAX_NAMED).join(', ')}${more}`);
  }
}

/** The database did not return the API key in time. */
export class KeyCheckTooSlow extends DomainError {
  readonly kind = 'unavailable';

  constructor() {
    super('The API key could not be checked in time', { retryAfterSeconds: 1 });
  }
}

/** No API key has this id. */
export class ApiKeyNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string) {
    super(`API key '${id}' not found`);
  }
}

/** The API key exceeds its requests for this minute. */
export class TooManyRequests extends DomainError {
  readonly kind = 'rate-limited';

  /** @param seconds until the next minute begins */
  constructor(seconds: number) {
    super('Too many requests', { retryAfterSeconds: seconds });
  }
}
