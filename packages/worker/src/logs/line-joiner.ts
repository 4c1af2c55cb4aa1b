import type { MaskedLine } from '../secrets/mask-lines.js';
import { MAX_EVENT_LINE } from './log-events.js';

/** A line whose last part has arrived. */
export interface JoinedLine {
  /** As it was printed. All of it, or its begin: {@link MAX_EVENT_LINE} units at least. */
  readonly plain: string;
  /** As much of it without values of secrets. */
  readonly text: string;
  /** The last part of the printed line. */
  readonly end: string;
  /** Whether the line is longer than an event may be. */
  readonly isTooLong: boolean;
}

/** Joins the parts of the lines of one stream, in bounded memory. */
export class LineJoiner {
  private plain = '';
  private text = '';
  private length = 0;

  /** @returns null until the line ends */
  add({ text, plain = text, part }: MaskedLine): JoinedLine | null {
    if (this.length <= MAX_EVENT_LINE) {
      this.plain += plain;
      this.text += text;
    }
    this.length += plain.length;
    if (part === 'start' || part === 'rest') return null;
    const line = { plain: this.plain, text: this.text, end: plain, isTooLong: this.length > MAX_EVENT_LINE };
    this.plain = '';
    this.text = '';
    this.length = 0;
    return line;
  }
}
