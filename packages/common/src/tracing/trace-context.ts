/** The headers of W3C Trace Context. */
export interface TraceContext {
  /** `00-TRACE-SPAN-FLAGS`: 32, 16 and 2 lower-case hexadecimal digits. */
  readonly traceparent: string;
  /** Vendor-specific data. */
  readonly tracestate: string | null;
}

/** Longest propagated tracestate, in characters; the least that the standard allows. */
const LONGEST_STATE = 512;

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const STATE_MEMBER = /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/;
const MOST_MEMBERS = 32;

/** The flags of the standard: sampled, random trace id. */
const KNOWN_FLAGS = 0b11;

/**
 * Reads the two headers as the standard says: an invalid traceparent is ignored, an invalid tracestate is dropped, and a
 * later version of the format is read as this one.
 */
export function readTraceContext(traceparent: unknown, tracestate?: unknown): TraceContext | null {
  if (typeof traceparent !== 'string' || traceparent.length > 512) return null;
  const [, version = '', traceId = '', spanId = '', flags = '', more] = TRACEPARENT.exec(traceparent) ?? [];
  if (version === '' || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return null;
  const known = (Number.parseInt(flags, 16) & KNOWN_FLAGS).toString(16).padStart(2, '0');
  return { traceparent: `00-${traceId}-${spanId}-${known}`, tracestate: readTraceState(tracestate) };
}

/** Drops empty members. Null for none, an invalid or duplicate member, or a text that is too long. */
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
