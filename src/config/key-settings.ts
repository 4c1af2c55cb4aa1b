import { ValidateBy } from 'class-validator';
import { createSecretKey, type KeyObject } from 'node:crypto';

/** What an API key permits. `admin` includes the others. */
export const SCOPES = ['admin', 'client', 'worker', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];

/** Fewest characters of a key of SERVICE_API_KEYS. */
export const MIN_KEY_LENGTH = 20;

/** Longest tag or capability of a worker, in characters. */
export const LONGEST_NAME = 128;

/** The id of a worker, or the beginning of ids followed by `*`. */
export const WORKER_ID_OR_PREFIX = /^[A-Za-z0-9](?:[A-Za-z0-9._:/-]{0,127}|[A-Za-z0-9._:/-]{0,126}\*)$/;

/** What a worker key is bound to, each null when the key is not bound in this respect. */
export interface KeyBinding {
  /** The workers that the key acts as: ids, and prefixes that end in `*`. */
  readonly workerIds: readonly string[] | null;
  /** The tags that a worker may have; empty: none. */
  readonly workerTags: readonly string[] | null;
  /** The capabilities that a worker may have; empty: none. */
  readonly workerCapabilities: readonly string[] | null;
}

/** A binding in which what is not bound is absent. */
type BindingSetting = { readonly [K in keyof KeyBinding]?: NonNullable<KeyBinding[K]> };

/** One entry of SERVICE_API_KEYS; `key` is the secret itself. */
export interface ApiKeySetting extends BindingSetting {
  readonly scope: Scope;
  readonly key: string;
  /** By which the audit log tells it from others. */
  readonly name?: string;
}

/** Before the last characters of a key, `=` is the padding of Base64; elsewhere it follows the name of the key. */
const NAMED_KEY = /^([^=]*)=(?!=*$)(.*)$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * `scope:rest` or `scope@bindings:rest`. A colon ends the bindings, unless it follows `tag`, `capability` or
 * `capability:network` at the start of one. The rest is optional so that nothing is read in a second way: `worker@tag:x` has no key.
 */
const ENTRY =
  /^(?<scope>[^:@]*)(?:@(?<bindings>(?:(?:tag|capability(?::network)?):)?[^:+]*(?:\+(?:(?:tag|capability(?::network)?):)?[^:+]*)*))?(?::(?<rest>.*))?$/s;
const TAG = 'tag:';
const CAPABILITY = 'capability:';

/**
 * Splits the text of SERVICE_API_KEYS into entries `scope:key`, `scope:name=key` or `worker@bindings:key`, which may be
 * invalid. Bindings are joined by `+`: ids of workers, `prefix*`, `tag:name` and `capability:name`; `tag:` and
 * `capability:` alone mean none.
 */
export function parseApiKeys(text: unknown): readonly { readonly scope: string; readonly key: string }[] {
  if (typeof text !== 'string') return [];
  return text.split(',').map((entry) => {
    const { scope = '', bindings, rest = '' } = ENTRY.exec(entry.trim())?.groups ?? {};
    const [, name, key = rest] = NAMED_KEY.exec(rest) ?? [];
    const binding = bindings === undefined ? {} : readBinding(bindings.split('+'));
    return { scope, key, ...(name !== undefined && { name }), ...binding };
  });
}

function readBinding(bindings: readonly string[]): BindingSetting {
  const ids = bindings.filter((one) => !one.startsWith(TAG) && !one.startsWith(CAPABILITY));
  const named = (prefix: string): readonly string[] | null => {
    const values = bindings.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
    return values.length === 0 ? null : values.filter((value) => value !== '');
  };
  const [tags, capabilities] = [named(TAG), named(CAPABILITY)];
  return {
    ...(ids.length > 0 && { workerIds: ids }),
    ...(tags && { workerTags: tags }),
    ...(capabilities && { workerCapabilities: capabilities }),
  };
}

/** Checks keys. @param faultsOf names entries by their position, never by their text */
function HasKeys(faultsOf: (entries: readonly never[]) => readonly string[]): PropertyDecorator {
  return ValidateBy({
    name: 'hasKeys',
    validator: {
      validate: (entries) => faultsOf(entries).length === 0,
      defaultMessage: (context) => faultsOf(context?.value).join('; '),
    },
  });
}

export function HasApiKeys(): PropertyDecorator {
  return HasKeys(apiKeyFaults);
}

export function HasSecretsKeys(): PropertyDecorator {
  return HasKeys((keys: readonly unknown[]) => {
    const wrong = keys.indexOf(undefined);
    return wrong < 0 ? [] : [`entry ${wrong + 1} is not 32 bytes in Base64`];
  });
}

function apiKeyFaults(entries: readonly ApiKeySetting[]): string[] {
  return entries.flatMap(({ scope, key, name, ...binding }, index) => {
    const place = `entry ${index + 1}`;
    if (!SCOPES.includes(scope)) {
      return [`${place} does not start with admin:, client:, worker:, worker@bindings: or metrics:`];
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
    const { workerIds = [], workerTags = [], workerCapabilities = [] } = binding;
    if (Object.keys(binding).length === 0) return [];
    if (scope !== 'worker') return [`${place} binds a key to workers that has not the scope worker`];
    if (!workerIds.every((id) => WORKER_ID_OR_PREFIX.test(id))) {
      return [
        `${place} binds a key to something else than worker ids, prefixes ending in *, tag:NAME and capability:NAME, joined by +`,
      ];
    }
    if (
      ![workerTags, workerCapabilities].every((names) => names.every((one) => one.length <= LONGEST_NAME))
    ) {
      return [`${place} binds a key to a tag or capability of more than ${LONGEST_NAME} characters`];
    }
    return entries.some((other, place2) => place2 !== index && other.key === key)
      ? [`the key of ${place} is bound to workers and listed twice`]
      : [];
  });
}

/** 32 bytes in Base64, as `openssl rand -base64 32` prints them. */
const KEY = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

/** Splits the text of SERVICE_SECRETS_KEY into its keys; an entry that is not a key becomes undefined. */
export function parseSecretsKeys(text: unknown): readonly (KeyObject | undefined)[] {
  if (typeof text !== 'string') return [];
  return text.split(',').map((entry) => {
    const key = entry.trim();
    return KEY.test(key) ? createSecretKey(key, 'base64') : undefined;
  });
}
