/** Variables with values that are also names of secrets. */
export function variables(count: number, value = '', prefix = 'V'): Record<string, string> {
  return Object.fromEntries(numbered(count, prefix).map((name) => [name, value]));
}

/** Texts that differ. */
export function numbered(count: number, prefix: string): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`);
}
