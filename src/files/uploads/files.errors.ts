import { DomainError, OverLimit } from '../../common/errors/domain-error.js';
import type { FileUser } from '../../database/file-uses.js';

/** Seconds after which a caller whose files exceed its limit may try again. */
const RETRY_AFTER_S = 60;

/** No file has this id. */
export class FileNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string) {
    super(`File '${id}' not found`);
  }
}

/** The file is not in the store. */
export class FileNotUploaded extends DomainError {
  readonly kind = 'conflict';

  constructor(id: string) {
    super(`File '${id}' is not uploaded yet`);
  }
}

/** The bytes of the file were removed. */
export class FileRemoved extends DomainError {
  readonly kind = 'gone';

  constructor(id: string, at: Date) {
    super(`File '${id}' was removed at ${at.toISOString()}`);
  }
}

/** The file is not uploaded in parts. */
export class FileWithoutParts extends DomainError {
  readonly kind = 'conflict';

  constructor(id: string) {
    super(`File '${id}' is not uploaded in parts`);
  }
}

/** Something that needs the file uses it. */
export class FileInUse extends DomainError {
  readonly kind = 'conflict';

  constructor(id: string, { kind, id: user }: FileUser) {
    const which = kind === 'definition' ? 'version of a definition' : kind;
    super(`File '${id}' is used by the ${which} '${user}'${kind === 'run' ? ', which has not ended' : ''}`);
  }
}

/** With this file, those of the API key would exceed its limit. */
export class TooManyFileBytes extends OverLimit {
  /** @param held bytes of its files now */
  constructor(keyName: string, { max, held }: { readonly max: number; readonly held: number }) {
    super(
      `The files of the API key '${keyName}' have ${held} bytes of at most ${max}`,
      'max_file_bytes',
      RETRY_AFTER_S,
    );
  }
}
