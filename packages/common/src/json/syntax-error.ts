/** A scalar but a string, a string, or a character of the structure, after white space. */
const TOKEN =
  // oxlint-disable-next-line no-control-regex -- a string has none
  /[\t\n\r ]*(?:(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|("[^"\\\0-\x1f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\0-\x1f]*)*")|([{}[\],:]))/y;
const SPACE = /[\t\n\r ]*/y;

/** By what has been read: the tokens that may follow, `v` for a scalar and `s` for a string. */
const FOLLOWING = {
  value: 'vs{[',
  'first item': 'vs{[]',
  'first key': 's}',
  key: 's',
  colon: ':',
  'rest of a list': ',]',
  'rest of an object': ',}',
  nothing: '',
} as const;

type Expected = keyof typeof FOLLOWING;

/** The offset of the first character at which a text stops to be JSON: its length if only its end is missing. */
export function syntaxErrorAt(text: string): number {
  const open: string[] = [];
  let expected: Expected = 'value';
  for (let at = 0; ;) {
    SPACE.lastIndex = at;
    SPACE.test(text);
    TOKEN.lastIndex = SPACE.lastIndex;
    const start = SPACE.lastIndex;
    const [token, scalar, string, sign = ''] = TOKEN.exec(text) ?? [];
    if (token === undefined) return start;
    const kind = scalar === undefined ? (string === undefined ? sign : 's') : 'v';
    if (!FOLLOWING[expected].includes(kind)) return start;
    at = start + token.length;
    if (kind === '{' || kind === '[') open.push(kind);
    else if (kind === '}' || kind === ']') open.pop();
    expected = nextOf(kind, expected, open.at(-1));
  }
}

function nextOf(kind: string, before: Expected, container: string | undefined): Expected {
  if (kind === '{') return 'first key';
  if (kind === '[') return 'first item';
  if (kind === ':') return 'value';
  if (kind === ',') return container === '{' ? 'key' : 'value';
  if (kind === 's' && (before === 'key' || before === 'first key')) return 'colon';
  if (container === undefined) return 'nothing';
  return container === '{' ? 'rest of an object' : 'rest of a list';
}
