import { DomainError } from '../common/errors/domain-error.js';

/** The cursor was not issued for this topic, or not at all. */
export class FeedCursorInvalid extends DomainError {
  readonly kind = 'invalid';
}

/** Retention has removed events after the cursor. */
export class FeedCursorGone extends DomainError {
  readonly kind = 'gone';

  /** @param oldest the oldest cursor that still works */
  constructor(readonly oldest: string) {
    super(`Events after this cursor are no longer kept; the oldest cursor that still works is '${oldest}'`);
  }
}

/** The cursor is beyond the end of the backup that the database was restored from, or of the standby that was promoted. */
export class FeedCursorLost extends DomainError {
  readonly kind = 'gone';

  /** @param next a cursor that works and skips no event */
  constructor(readonly next: string) {
    super(
      `The database was restored from a backup that ends before this cursor, or a standby was promoted that does; the cursor to go on from is '${next}'`,
    );
  }
}

export class FeedNotConfigured extends DomainError {
  readonly kind = 'switched-off';

  constructor() {
    super('Event feed is not configured');
  }
}
