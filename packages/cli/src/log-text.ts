import { isJsonObject } from '@longshore/common/json/json-value';
import type { Output } from './output.js';
import { escapeLineFeeds, safeLine } from './style.js';

/** How lines of a log are printed. */
export interface LogStyle {
  /** The API's own JSON, a line each. */
  readonly json: boolean;
  readonly timestamps: boolean;
}

/** Formats a log line or a gap for printing. @param json LogLine or LogGap */
export function logLine(
  json: string,
  style: LogStyle,
  screen: Pick<Output, 'isTerminal' | 'colours'>,
): string {
  if (style.json) return json;
  const entry: unknown = JSON.parse(json);
  if (!isJsonObject(entry)) return json;
  const { gap, text, t } = entry;
  if (isJsonObject(gap)) return `[... ${Number(gap['lines'])} lines left out ...]`;
  const time = style.timestamps && typeof t === 'string' ? `${t} ` : '';
  const said = typeof text === 'string' ? text : '';
  return time + (screen.isTerminal ? safeLine(said, screen.colours) : escapeLineFeeds(said));
}

/** Prints lines of a log. */
export async function printLog(entries: readonly string[], style: LogStyle, output: Output): Promise<void> {
  const text = entries.map((entry) => `${logLine(entry, style, output)}\n`).join('');
  await (style.json || output.isTerminal ? output.write(text) : output.raw(text));
}
