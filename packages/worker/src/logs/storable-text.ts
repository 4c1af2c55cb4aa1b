const UNSTORABLE = /[\0\p{Surrogate}]/gu;

/** Replaces what the service refuses in a text, NUL characters and lone surrogates, by U+FFFD. */
export function storable(text: string): string {
  return text.replace(UNSTORABLE, '\uFFFD');
}
