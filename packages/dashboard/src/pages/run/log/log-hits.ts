/** A stretch of a text, and whether it belongs to a hit. */
export interface Stretch {
  readonly text: string;
  readonly isHit: boolean;
}

/**
 * The stretches of consecutive texts, each text on its own; a hit may go from one text into the next.
 * @param wanted in any case; empty: there are no hits
 */
export function stretchesOf(texts: readonly string[], wanted: string): readonly (readonly Stretch[])[] {
  const hits = hitsIn(texts.join(''), wanted.toLowerCase());
  let start = 0;
  return texts.map((text) => {
    const from = start;
    start += text.length;
    const parts: Stretch[] = [];
    let at = 0;
    for (const hit of hits) {
      const begin = Math.max(hit.begin - from, at);
      const end = Math.min(hit.end - from, text.length);
      if (begin >= end) continue;
      if (begin > at) parts.push({ text: text.slice(at, begin), isHit: false });
      parts.push({ text: text.slice(begin, end), isHit: true });
      at = end;
    }
    return at < text.length ? [...parts, { text: text.slice(at), isHit: false }] : parts;
  });
}

function hitsIn(text: string, wanted: string): { readonly begin: number; readonly end: number }[] {
  const lower = text.toLowerCase();
  // Some letters change their length with the case; then places in one are not places in the other.
  if (wanted === '' || lower.length !== text.length) return [];
  const hits = [];
  for (let begin = lower.indexOf(wanted); begin >= 0; begin = lower.indexOf(wanted, begin + wanted.length))
    hits.push({ begin, end: begin + wanted.length });
  return hits;
}
