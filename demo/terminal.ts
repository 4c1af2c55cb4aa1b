import type { WriteStream } from 'node:tty';
import { paint, type LineStyle } from './run-lines.js';

/** Narrower terminals would break the lines that are drawn over. */
const LIVE_COLUMNS = 60;

/** Where a demo shows itself. */
export interface Terminal {
  readonly out: Pick<WriteStream, 'write' | 'columns'>;
  readonly style: LineStyle;
  /** Whether lines can be drawn over: not in a pipe. */
  readonly live: boolean;
  /** Prints one line. */
  say(line: string): void;
  strong(text: string): string;
}

/** Standard output as it is: a terminal, with or without colours (NO_COLOR, FORCE_COLOR), or a pipe. */
export function openTerminal(out: WriteStream, env: NodeJS.ProcessEnv): Terminal {
  const terminal = out.isTTY && env['TERM'] !== 'dumb';
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG'] || '';
  const style: LineStyle = {
    colours: terminal && out.hasColors(),
    blocks: process.platform === 'darwin' || /utf-?8/i.test(locale),
  };
  return {
    out,
    style,
    live: terminal && out.columns >= LIVE_COLUMNS,
    say: (line) => void out.write(`${line}\n`),
    strong: (text) => paint(text, 'bold', style),
  };
}
