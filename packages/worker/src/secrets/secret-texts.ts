/** Shorter values, and shorter lines of a value, are not masked alone, in characters. */
const MIN_LENGTH = 4;

const LINE_BREAK = /\r\n|\r|\n/;

/** How a JSON text begins that has strings. */
const JSON_BEGIN = /^\s*[[{"]/;

/**
 * What is replaced for the values of secrets, without doubles: each value, each string of one that is JSON, each of their lines,
 * and lines that are too short alone together with those beside them. Lines are without white space around them and separated by a line feed; blank ones are left
 * out. Thus no text begins or ends with white space.
 */
export function textsOf(values: readonly string[]): string[] {
  return [...new Set(values)]
    .flatMap((value) => [value, ...stringsOf(value)])
    .flatMap(textsOfValue)
    .filter(isFirst(new Set()));
}

/** The strings of a JSON text, without its keys; empty for another text. */
function stringsOf(text: string): string[] {
  if (!JSON_BEGIN.test(text)) return [];
  const strings: string[] = [];
  const left: unknown[] = [parsed(text)];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === 'string') strings.push(value);
    else if (typeof value === 'object' && value !== null)
      for (const item of Object.values(value)) left.push(item);
  }
  return strings;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The lines that are not blank, without the white space around them. */
function linesOf(text: string): string[] {
  return text
    .split(LINE_BREAK)
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

function textsOfValue(value: string): string[] {
  const lines = linesOf(value);
  const lengths = lines.map(lengthOf);
  const whole = lines.join('\n');
  const texts = lengthOf(whole) >= MIN_LENGTH ? [whole] : [];
  lengths.forEach((length, index) => {
    if (length >= MIN_LENGTH) texts.push(lines[index] ?? '');
    else texts.push(...groupsOf(lines, lengths, index));
  });
  return texts;
}

/** The shortest groups of consecutive lines that begin or end with a line and are long enough. */
function groupsOf(lines: readonly string[], lengths: readonly number[], index: number): string[] {
  const groups: string[] = [];
  for (const step of [1, -1]) {
    let sum = 0;
    let at = index;
    for (; sum < MIN_LENGTH && at >= 0 && at < lines.length; at += step) sum += lengths[at] ?? 0;
    const [first, last] = step === 1 ? [index, at] : [at + 1, index + 1];
    if (sum >= MIN_LENGTH) groups.push(lines.slice(first, last).join('\n'));
  }
  return groups;
}

/** In characters, at most {@link MIN_LENGTH}. */
function lengthOf(text: string): number {
  return Math.min(MIN_LENGTH, Array.from(text.slice(0, 2 * MIN_LENGTH)).length);
}

function isFirst(seen: Set<string>): (text: string) => boolean {
  return (text) => {
    const before = seen.size;
    return seen.add(text).size > before;
  };
}
