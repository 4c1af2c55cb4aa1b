import { DomainError } from '../../common/errors/domain-error.js';

/** SERVICE_FILES_URL is `none`. */
export class FilesNotConfigured extends DomainError {
  readonly kind = 'switched-off';

  constructor() {
    super('Files are not configured', { errors: ['the operator must set SERVICE_FILES_URL'] });
  }
}

/** The end of an attempt is reported, and the store was not asked yet what it has left; nothing has changed. */
export class FilesUnchecked extends Error {
  constructor(readonly attempt: number) {
    super('the store was not asked what the attempt has left');
  }
}
