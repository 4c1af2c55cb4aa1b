import { ValidateBy } from 'class-validator';

/** Scopes that a key of SERVICE_API_KEYS may have. */
const API_KEY_SCOPES = ['admin', 'client', 'worker', 'metrics'] as const;

/** Fewest characters of a key of SERVICE_API_KEYS. */
export const MIN_KEY_LENGTH = 20;

/** The id of a worker, or the beginning of ids followed by `*`. */
export const WORKER_ID_OR_PREFIX = /^[A-Za-z0-9](?:[A-Za-z0-9._:/-]{0,127}|[A-Za-z0-9._:/-]{0,126}\*)$/;

/** One entry of SERVICE_API_KEYS; `key` is the secret itself. */
export interface ApiKeySetting {
  readonly scope: (typeof API_KEY_SCOPES)[number];
  readonly key: string;
  /** By which the audit log tells it from others. */
  readonly name?: string;
  /** The workers to which the key is bound: ids, and prefixes that end in `*`. Undefined: it is not bound. */
  readonly workerIds?: readonly string[];
}

/** Before the last characters of a key, `=` is the padding of Base64; elsewhere it follows the name of the key. */
const NAMED_KEY = /^([^=]*)=(?!=*$)(.*)$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * Splits the text of SERVICE_API_KEYS into entries `scope:key`, `scope:name=key` or `worker@id+prefix*:key`, which may be
 * invalid.
 */
export function parseApiKeys(text: unknown): readonly { readonly scope: string; readonly key: string }[] {
  if (typeof text !== 'string') return [];
  return text.split(',').map((entry) => {
    const [subject = '', ...rest] = entry.trim().split(':');
    const [scope = '', ...workerIds] = subject.split('@');
    const binding = workerIds.length === 0 ? {} : { workerIds: workerIds.join('@').split('+') };
    const named = rest.join(':');
    const [, name, key = named] = NAMED_KEY.exec(named) ?? [];
    return { scope, key, ...(name !== undefined && { name }), ...binding };
  });
}

/** Checks the entries. The message names the position of an entry, never its text. */
export function HasApiKeys(): PropertyDecorator {
  return ValidateBy({
    name: 'hasApiKeys',
    validator: {
      validate: (entries) => faultsOf(entries).length === 0,
      defaultMessage: (context) => faultsOf(context?.value).join('; '),
    },
  });
}

function faultsOf(entries: readonly ApiKeySetting[]): string[] {
  return entries.flatMap(({ scope, key, name, workerIds }, index) => {
    const place = `entry ${index + 1}`;
    if (!API_KEY_SCOPES.includes(scope)) {
      return [`${place} does not start with admin:, client:, worker:, worker@ids: or metrics:`];
    }
    if (!/^[\x21-\x7e]+$/.test(key)) {
      return [`the key of ${place} is empty or holds a character that is not visible ASCII`];
    }
    if (key.length < MIN_KEY_LENGTH) {
      return [`the key of ${place} has fewer than ${MIN_KEY_LENGTH} characters`];
    }
    if (name !== undefined && !NAME.test(name)) {
      return [
        `the name of ${place} is not 1 to 64 letters, digits and . _ -, starting with a letter or digit (a key must not hold = but at its end)`,
      ];
    }
    const isOfAnother = (other: ApiKeySetting): boolean =>
      name !== undefined && other.name !== undefined && (other.name === name) !== (other.key === key);
    if (entries.some(isOfAnother))
      return [`${place} has the name of another key, or its key has another name`];
    if (workerIds === undefined) return [];
    if (scope !== 'worker') return [`${place} binds a key to workers that has not the scope worker`];
    if (!workerIds.every((id) => WORKER_ID_OR_PREFIX.test(id))) {
      return [`${place} binds a key to something else than worker ids and prefixes ending in *, joined by +`];
    }
    return entries.some((other, place2) => place2 !== index && other.key === key)
      ? [`the key of ${place} is bound to workers and listed twice`]
      : [];
  });
}
