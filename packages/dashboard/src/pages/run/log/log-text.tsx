import Anser from 'anser';
import { classNames } from '../../../lib/class-names.js';
import styles from './log-text.module.css';

const ESCAPE = String.fromCodePoint(0x1b);
const BELL = String.fromCodePoint(0x07);

/** Escape sequences that are not about colours: titles of windows, movements, character sets. */
const OTHER_SEQUENCES = new RegExp(
  `${ESCAPE}(?:\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)?|\\[[0-9;?]*[A-LN-Za-ln-z]|[()][A-Z0-9]|[=>78c])`,
  'g',
);

interface Props {
  readonly text: string;
  /** What is marked, whatever its case; empty: nothing. */
  readonly marked: string;
}

/** The text of a line, with the 16 colours of terminals. What a carriage return wrote over is not shown. */
export function LogText({ text, marked }: Props) {
  const visible = lastWritten(text.replaceAll(OTHER_SEQUENCES, ''));
  if (!visible.includes(ESCAPE)) return <Marked text={visible} marked={marked} />;
  return Anser.ansiToJson(visible, { use_classes: true, remove_empty: true }).map(
    ({ content, fg, bg, decorations }, index) => (
      <span
        // oxlint-disable-next-line react/no-array-index-key -- the pieces of one line never change places
        key={index}
        className={classNames(
          styles[`fg-${fg}`],
          styles[`bg-${bg}`],
          ...decorations.map((name) => styles[name]),
        )}
      >
        <Marked text={content} marked={marked} />
      </span>
    ),
  );
}

function Marked({ text, marked }: Props) {
  const wanted = marked.toLowerCase();
  const lower = text.toLowerCase();
  // Some letters change their length with the case; then places in one are not places in the other.
  if (wanted === '' || lower.length !== text.length || !lower.includes(wanted)) return text;
  const parts = [];
  let at = 0;
  for (let next = lower.indexOf(wanted); next >= 0; next = lower.indexOf(wanted, at)) {
    parts.push(text.slice(at, next), <mark key={next}>{text.slice(next, next + wanted.length)}</mark>);
    at = next + wanted.length;
  }
  return [...parts, text.slice(at)];
}

function lastWritten(text: string): string {
  if (!text.includes('\r')) return text;
  return text.split('\r').findLast((part) => part !== '') ?? '';
}
