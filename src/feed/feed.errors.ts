import { DomainError } from '../common/http/errors/domain-error.js';

/** The cursor was not made by this feed, or not by any. */
export class FeedCursorInvalid extends DomainError {
  readonly kind = 'invalid';
}

/** Retention has removed events that the cursor has yet to come to. */
export class FeedCursorGone extends DomainError {
  readonly kind = 'gone';

  /** @param oldest the oldest cursor that still works */
  constructor(readonly oldest: string) {
    super(`Events after this cursor are no longer kept; the oldest cursor that still works is '${oldest}'`);
  }
}

/** The cursor stands behind the end of the backup that the database was restored from. */
export class FeedCursorLost extends DomainError {
  readonly kind = 'gone';

  /** @param next a cursor that works, behind which nothing is left out */
  constructor(readonly next: string) {
    super(
      `The database was restored from a backup that ends before this cursor; the cursor to go on from is '${next}'`,
    );
  }
}

/** The service runs without a feed. */
export class FeedNotConfigured extends DomainError {
  readonly kind = 'switched-off';

  constructor() {
    super('Event feed is not configured');
  }
}

/** This process holds as many waiting readers as it takes. */
export class TooManyFeedReaders extends DomainError {
  readonly kind = 'unavailable';

  constructor() {
    super('Too many readers are waiting for events', { retryAfterSeconds: 5 });
  }
}
