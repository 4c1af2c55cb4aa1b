import { createSecretKey, type KeyObject } from 'node:crypto';
import { ValidateBy } from 'class-validator';

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

/** Checks the keys. The message names the position of an entry, never its text. */
export function HasSecretsKeys(): PropertyDecorator {
  return ValidateBy({
    name: 'hasSecretsKeys',
    validator: {
      validate: (keys) => faultOf(keys) < 0,
      defaultMessage: (context) => `entry ${faultOf(context?.value) + 1} is not 32 bytes in Base64`,
    },
  });
}

function faultOf(keys: readonly (KeyObject | undefined)[]): number {
  return keys.indexOf(undefined);
}
