import { ValidateBy } from 'class-validator';

/** Scopes that a key of SERVICE_API_KEYS may have. */
export const API_KEY_SCOPES = ['admin', 'client', 'worker'] as const;
export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

/** One entry of SERVICE_API_KEYS; `key` is the secret itself. */
export interface ApiKeySetting {
  readonly scope: ApiKeyScope;
  readonly key: string;
}

/** Splits the text of SERVICE_API_KEYS into its entries, which may be invalid; an unset one has none. */
export function parseApiKeys(text: unknown): readonly { readonly scope: string; readonly key: string }[] {
  if (typeof text !== 'string') return [];
  return text.split(',').map((entry) => {
    const [scope = '', ...key] = entry.trim().split(':');
    return { scope, key: key.join(':') };
  });
}

/** Checks the entries of `parseApiKeys`. The message names the position of an entry, never its text. */
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
  return entries.flatMap(({ scope, key }, index) => {
    if (!API_KEY_SCOPES.includes(scope)) {
      return [`entry ${index + 1} does not start with admin:, client: or worker:`];
    }
    if (!/^[\x21-\x7e]+$/.test(key)) {
      return [`the key of entry ${index + 1} is empty or holds a character that is not visible ASCII`];
    }
    return [];
  });
}
