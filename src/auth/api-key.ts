import { hash, randomInt } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
/** Random characters in the prefix; the others hold more than 160 bits. */
const SHOWN_LENGTH = 4;
const FORM = new RegExp(`^ls_[a-z]+_[0-9A-Za-z]{${RANDOM_LENGTH + CHECKSUM_LENGTH}}$`);

/** Generates a key: a readable prefix with its purpose, 190 random bits, and a checksum that reveals typing errors. */
export function makeApiKey(purpose: string): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  const stem = `ls_${purpose}_${random}`;
  return stem + checksum(stem);
}

/** Whether the text has the form of a key of `makeApiKey` and a correct checksum. */
export function isApiKey(text: string): boolean {
  return FORM.test(text) && checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

/** The part of a key that may be shown: its purpose and four random characters. */
export function prefixOf(key: string): string {
  return key.slice(0, key.lastIndexOf('_') + 1 + SHOWN_LENGTH);
}

/** The only form in which keys are stored: SHA-256, hexadecimal. Keys have too much entropy to need a slow hash. */
export function hashApiKey(key: string): string {
  return hash('sha256', key);
}

function checksum(stem: string): string {
  const digest = hash('sha256', stem, 'buffer').subarray(0, CHECKSUM_LENGTH);
  return [...digest].map((byte) => ALPHABET[byte % ALPHABET.length]).join('');
}
