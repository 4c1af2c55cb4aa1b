import { promisify } from 'node:util';
import { deflateRaw, inflateRaw } from 'node:zlib';
import type { LogLine, LogStream } from './log-shapes.js';

// Both run in the thread pool: the event loop only writes and reads the JSON of one row at a time.
const deflate = promisify(deflateRaw);
const inflate = promisify(inflateRaw);

/** Cheap, and within a tenth of what the best level comes to on text. */
const LEVEL = 4;

/** The lines of a row, column by column: what is alike stands together. */
interface Columns {
  /** Times in milliseconds, each as the difference to the one before it. */
  readonly times: readonly number[];
  /** A letter a line: o for stdout, e for stderr, a capital for a piece that goes on. */
  readonly kinds: string;
  readonly texts: readonly string[];
}

const KINDS: Readonly<Record<string, Pick<LogLine, 'stream' | 'continued'>>> = {
  o: { stream: 'stdout', continued: false },
  e: { stream: 'stderr', continued: false },
  O: { stream: 'stdout', continued: true },
  E: { stream: 'stderr', continued: true },
};

const LETTERS: Readonly<Record<LogStream, string>> = { stdout: 'o', stderr: 'e' };

/** The lines of a row as they are stored. */
export function packLines(lines: readonly LogLine[]): Promise<Buffer> {
  let before = 0;
  const columns: Columns = {
    times: lines.map(({ t }) => {
      const difference = t - before;
      before = t;
      return difference;
    }),
    kinds: lines.map(({ stream, continued }) => kindOf(stream, continued)).join(''),
    texts: lines.map(({ text }) => text),
  };
  return deflate(JSON.stringify(columns), { level: LEVEL });
}

/** What {@link packLines} made. @throws Error when it is something else */
export async function unpackLines(packed: Buffer): Promise<LogLine[]> {
  const { times, kinds, texts }: Columns = JSON.parse((await inflate(packed)).toString());
  let t = 0;
  return texts.map((text, n) => {
    t += times[n] ?? 0;
    const kind = KINDS[kinds.charAt(n)];
    if (kind === undefined) throw new Error('a stored row of a log is not known to this version');
    return { t, text, ...kind };
  });
}

function kindOf(stream: LogStream, continued: boolean): string {
  return continued ? LETTERS[stream].toUpperCase() : LETTERS[stream];
}
