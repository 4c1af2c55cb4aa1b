import { DomainError } from '../../common/errors/domain-error.js';

/** The store cannot be reached or answers with an error. */
export class StoreUnavailable extends DomainError {
  /** How many there were in this process. */
  static count = 0;

  readonly kind = 'unavailable';

  /** @param reason for logs and the overview; a client does not see it */
  constructor(
    readonly reason: string,
    cause?: unknown,
  ) {
    super('The file store is not available', { retryAfterSeconds: 5, cause });
    StoreUnavailable.count += 1;
  }
}

/** The store does not have the parts that an upload is to be completed with. */
export class PartsRefused extends DomainError {
  readonly kind = 'invalid';
}

/** The signature of a URL is wrong or has expired. */
export class UrlRefused extends DomainError {
  readonly kind = 'forbidden';
}

/** There is no object with this key. */
export class ObjectNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor() {
    super('No such object');
  }
}

/** The URL allows only the first upload, and there was one. */
export class AlreadyStored extends DomainError {
  readonly kind = 'precondition-failed';

  constructor() {
    super('The object exists already');
  }
}

/** The upload cannot become an object: uploads to its place have ended, or the name is taken by a folder. */
export class UploadConflict extends DomainError {
  readonly kind = 'conflict';
}

/** The disk of the folder is too full: 507. */
export class StoreFull extends DomainError {
  readonly kind = 'insufficient-storage';

  constructor() {
    super('The upload would leave too little of the disk free (SERVICE_FILES_MIN_FREE_MB)');
  }
}
