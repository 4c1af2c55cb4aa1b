/** A place in a trace as it travels from one program to the next (W3C Trace Context). */
export interface TraceContext {
  /** `00-TRACE-SPAN-FLAGS`: 32, 16 and 2 lower-case hexadecimal digits. */
  readonly traceparent: string;
  /** What tracing systems add for themselves; null for nothing. */
  readonly tracestate: string | null;
}

/** Longest tracestate that is passed on, in characters; the standard asks for this many at least. */
const LONGEST_STATE = 512;

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const STATE_MEMBER = /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/;
const MOST_MEMBERS = 32;

/** Of the flags those that this version of the standard knows: sampled, and a random trace id. */
const KNOWN_FLAGS = 0b11;

/**
 * Reads the two headers. What is no valid traceparent is none, as the standard says; a tracestate that is not valid does
 * not touch the traceparent. A later version of the format is read as far as this one goes.
 */
export function readTraceContext(traceparent: unknown, tracestate?: unknown): TraceContext | null {
  if (typeof traceparent !== 'string' || traceparent.length > 512) return null;
  const [, version = '', traceId = '', spanId = '', flags = '', more] = TRACEPARENT.exec(traceparent) ?? [];
  if (version === '' || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return null;
  const known = (Number.parseInt(flags, 16) & KNOWN_FLAGS).toString(16).padStart(2, '0');
  return { traceparent: `00-${traceId}-${spanId}-${known}`, tracestate: readTraceState(tracestate) };
}

/** Members without empty ones; null when there are none, when one is malformed or there twice, and when it is too long. */
function readTraceState(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > 4 * LONGEST_STATE) return null;
  const members = text
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '');
  const state = members.join(',');
  if (state === '' || state.length > LONGEST_STATE || members.length > MOST_MEMBERS) return null;
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf('='))));
  if (keys.size < members.length) return null;
  return members.every((member) => STATE_MEMBER.test(member)) ? state : null;
}
