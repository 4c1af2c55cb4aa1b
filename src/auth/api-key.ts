import { createHash, hash, randomInt } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
// What stays secret behind the prefix is worth more than 160 bits.
const SHOWN_RANDOM = 4;
const FORM = new RegExp(`^ls_[a-z]+_[0-9A-Za-z]{${RANDOM_LENGTH + CHECKSUM_LENGTH}}$`);

/** Makes a key: readable prefix with its purpose, 190 random bits, and a checksum that reveals typing errors. */
export function makeApiKey(purpose: string): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  const stem = `ls_${purpose}_${random}`;
  return stem + checksum(stem);
}

/** Whether the text can be a key that `makeApiKey` made: it has the form, and nothing was mistyped. */
export function isApiKey(text: string): boolean {
  return FORM.test(text) && checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

/** The part of a key that may be shown, by which people tell keys apart: its purpose and four random characters. */
export function prefixOf(key: string): string {
  return key.slice(0, key.lastIndexOf('_') + 1 + SHOWN_RANDOM);
}

/** The only form in which keys are kept: SHA-256, hexadecimal. Keys have too much entropy to need a slow hash. */
export function hashApiKey(key: string): string {
  return hash('sha256', key);
}

function checksum(stem: string): string {
  const digest = createHash('sha256').update(stem).digest();
  return [...digest.subarray(0, CHECKSUM_LENGTH)].map((byte) => ALPHABET[byte % ALPHABET.length]).join('');
}
