import { isUtf8 } from 'node:buffer';

/** The bytes of base64 as RFC 4648 has it: with padding and without line breaks; undefined: the text is something else. */
export function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

/** Characters of so many bytes in base64. */
export function base64Length(bytes: number): number {
  return 4 * Math.ceil(bytes / 3);
}

/** UTF-8 without NUL as a text, which a variable and a field of JSON can hold; other bytes as they are. */
export function textOrBytes(bytes: Buffer): string | Buffer {
  return isUtf8(bytes) && !bytes.includes(0) ? bytes.toString() : bytes;
}
