/** What is wrong with the name of a secret. */
export const SECRET_RULE =
  'must be a name of letters, digits, ".", "_" and "-" that starts with a letter or digit of 1 to 128 characters';

/** Variables with values that are also names of secrets. */
export function variables(count: number, value = '', prefix = 'V'): Record<string, string> {
  return Object.fromEntries(numbered(count, prefix).map((name) => [name, value]));
}

/** Texts that differ. */
export function numbered(count: number, prefix: string): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`);
}
