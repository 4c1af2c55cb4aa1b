import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import type { Output } from '../terminal/output.js';
import { escapeLineFeeds, safeLine } from '../terminal/style.js';

/** How lines of a log are printed. */
export interface LogStyle {
  /** The API's own JSON, a line each. */
  readonly json: boolean;
  readonly timestamps: boolean;
}

/** How long a line feed waits for a further piece of its line, in milliseconds. */
const PIECE_MS = 1_000;

/** Prints lines of a log, those that come in pieces as one. */
export class LogPrinter {
  /** The last line if a further piece may follow it. */
  private open: JsonObject | null = null;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly style: LogStyle,
    private readonly output: Output,
  ) {}

  /** @param entries LogLine or LogGap in JSON */
  async print(entries: readonly string[]): Promise<void> {
    if (entries.length === 0) return;
    clearTimeout(this.timer);
    const { style, output } = this;
    if (!output.hasOpenLine) this.open = null;
    const text = style.json ? entries.map((json) => `${json}\n`).join('') : this.textOf(entries);
    await (style.json || output.isTerminal ? output.write(text) : output.raw(text));
    // On a terminal the line of the progress comes next.
    if (output.isTerminal) await this.end();
    else this.timer = setTimeout(() => void this.end(), PIECE_MS);
  }

  /** Ends the last line. */
  async end(): Promise<void> {
    clearTimeout(this.timer);
    await this.output.endLine();
  }

  private textOf(entries: readonly string[]): string {
    const read = entries.map((json): unknown => JSON.parse(json)).filter(isJsonObject);
    // A terminal shows a line in its last state, for which its pieces are needed together.
    const lines = this.output.isTerminal ? joinedLines(read) : read;
    return lines.map((entry) => this.entryText(entry)).join('');
  }

  private entryText(entry: JsonObject): string {
    const { open } = this;
    const isGap = entry['stream'] === undefined;
    this.open = isGap ? null : entry;
    if (open !== null && continues(entry, open)) return shownText(entry, this.output);
    const line = logLine(entry, this.style, this.output);
    return (open === null ? '' : '\n') + line + (isGap ? '\n' : '');
  }
}

/** Entries of which those that continue a line are added to it; the number and the time are those of its last piece. */
function joinedLines(entries: readonly JsonObject[]): JsonObject[] {
  const lines: JsonObject[] = [];
  for (const entry of entries) {
    const last = lines.at(-1);
    if (last === undefined || !continues(entry, last)) lines.push(entry);
    else lines.splice(-1, 1, { ...last, ...entry, text: `${textOf(last)}${textOf(entry)}` });
  }
  return lines;
}

/** Says how much of a complete log is not stored. @param count lines, and each piece of a line */
export function noteLeftOut(
  output: Output,
  count: { readonly printed: number; readonly leftOut: number },
): void {
  const { printed, leftOut } = count;
  if (leftOut > 0) output.note(`${leftOut} of ${printed} lines and pieces of lines of the log are left out`);
}

/** Whether an entry is a further piece of the line of the one before it, between which a search may have left out others. */
function continues({ continued, stream, line }: JsonObject, before: JsonObject): boolean {
  return continued === true && stream === before['stream'] && line === Number(before['line']) + 1;
}

/** Formats a log line or a gap for printing. @param entry LogLine or LogGap */
export function logLine(
  entry: JsonObject,
  style: LogStyle,
  screen: Pick<Output, 'isTerminal' | 'colours'>,
): string {
  const { gap, t } = entry;
  if (isJsonObject(gap)) {
    const lines = Number(gap['lines']);
    return `[... ${lines} ${lines === 1 ? 'line' : 'lines'} left out ...]`;
  }
  const time = style.timestamps && typeof t === 'string' ? `${t} ` : '';
  return time + shownText(entry, screen);
}

function shownText(entry: JsonObject, screen: Pick<Output, 'isTerminal' | 'colours'>): string {
  const text = textOf(entry);
  return screen.isTerminal ? safeLine(text, screen.colours) : escapeLineFeeds(text);
}

function textOf({ text }: JsonObject): string {
  return typeof text === 'string' ? text : '';
}
