import { promisify } from 'node:util';
import { deflateRaw, inflateRaw } from 'node:zlib';
import type { LogLine } from './log-line.js';

// Both run in the thread pool; only the JSON of one row at a time is made and parsed on the event loop.
const deflate = promisify(deflateRaw);
const inflate = promisify(inflateRaw);

/** Fast, and within a tenth of the best level's size on text. */
const LEVEL = 4;

/** The lines of a row by column, which compresses better. */
interface Columns {
  /** Times in milliseconds, each as the difference to the one before. */
  readonly times: readonly number[];
  /** A letter a line: an index of KINDS. */
  readonly kinds: string;
  readonly texts: readonly string[];
}

type Kind = Pick<LogLine, 'stream' | 'continued'>;

const KINDS: Readonly<Record<string, Kind>> = {
  o: { stream: 'stdout', continued: false },
  e: { stream: 'stderr', continued: false },
  O: { stream: 'stdout', continued: true },
  E: { stream: 'stderr', continued: true },
};

export function packLines(lines: readonly LogLine[]): Promise<Buffer> {
  const columns: Columns = {
    times: lines.map(({ t }, n) => t - (lines[n - 1]?.t ?? 0)),
    kinds: lines.map(letterOf).join(''),
    texts: lines.map(({ text }) => text),
  };
  return deflate(JSON.stringify(columns), { level: LEVEL });
}

/** Reads what `packLines` made. @throws Error for anything else */
export async function unpackLines(packed: Buffer): Promise<LogLine[]> {
  const { times, kinds, texts }: Columns = JSON.parse((await inflate(packed)).toString());
  let t = 0;
  return texts.map((text, n) => {
    t += times[n] ?? 0;
    const kind = KINDS[kinds.charAt(n)];
    if (kind === undefined) throw new Error('this version cannot read a stored row of a log');
    return { t, text, ...kind };
  });
}

function letterOf({ stream, continued }: Kind): string {
  const letter = stream === 'stdout' ? 'o' : 'e';
  return continued ? letter.toUpperCase() : letter;
}
