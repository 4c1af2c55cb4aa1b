/** A span as a collector gets it. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for a span that begins a trace. */
  readonly parentSpanId: string;
  readonly name: string;
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  /** Nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Attributes;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** 0 unset, 1 ok, 2 error. */
  readonly status: number;
  /** Who sent it. */
  readonly resource: Attributes;
}

export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** Reads the body of an OTLP request, in whichever of its two encodings. */
export function decodeSpans(contentType: string, body: Buffer): ReceivedSpan[] {
  return contentType.startsWith('application/json') ? fromJson(body) : fromProtobuf(body);
}

/** Values of one message by the number of their field: bytes, or numbers. */
type Message = ReadonlyMap<number, readonly (Buffer | bigint)[]>;

function fromProtobuf(body: Buffer): ReceivedSpan[] {
  return messages(read(body), 1).flatMap((resourceSpans) => {
    const resource = attributesOf(messages(resourceSpans, 1)[0] ?? new Map(), 1);
    const spans = messages(resourceSpans, 2).flatMap((scope) => messages(scope, 2));
    return spans.map((span) => ({
      traceId: hex(span, 1),
      spanId: hex(span, 2),
      parentSpanId: hex(span, 4),
      name: bytes(span, 5).toString(),
      kind: Number(number(span, 6)),
      start: number(span, 7),
      end: number(span, 8),
      attributes: attributesOf(span, 9),
      links: messages(span, 13).map((link) => ({ traceId: hex(link, 1), spanId: hex(link, 2) })),
      status: Number(messages(span, 15).map((status) => number(status, 3))[0] ?? 0n),
      resource,
    }));
  });
}

function read(body: Buffer): Message {
  const fields = new Map<number, (Buffer | bigint)[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = body.readUInt8(at);
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const value = (wireType: bigint): Buffer | bigint => {
    if (wireType === 0n) return varint();
    const length = wireType === 1n ? 8 : wireType === 5n ? 4 : Number(varint());
    const part = body.subarray(at, at + length);
    at += length;
    if (part.length !== length) throw new Error('the message ends too early');
    return wireType === 1n ? part.readBigUInt64LE() : wireType === 5n ? BigInt(part.readUInt32LE()) : part;
  };
  while (at < body.length) {
    const tag = varint();
    const field = Number(tag >> 3n);
    fields.set(field, [...(fields.get(field) ?? []), value(tag & 7n)]);
  }
  return fields;
}

function messages(message: Message, field: number): Message[] {
  return (message.get(field) ?? []).flatMap((value) => (Buffer.isBuffer(value) ? [read(value)] : []));
}

function bytes(message: Message, field: number): Buffer {
  const value = message.get(field)?.at(-1);
  return Buffer.isBuffer(value) ? value : Buffer.alloc(0);
}

function hex(message: Message, field: number): string {
  return bytes(message, field).toString('hex');
}

function number(message: Message, field: number): bigint {
  const value = message.get(field)?.at(-1);
  return typeof value === 'bigint' ? value : 0n;
}

function attributesOf(message: Message, field: number): Attributes {
  return Object.fromEntries(
    messages(message, field).map((entry) => [bytes(entry, 1).toString(), anyValue(messages(entry, 2)[0])]),
  );
}

function anyValue(value: Message | undefined): string | number | boolean {
  if (value?.has(1)) return bytes(value, 1).toString();
  if (value?.has(2)) return number(value, 2) === 1n;
  if (value?.has(3)) return Number(BigInt.asIntN(64, number(value, 3)));
  if (value?.has(4)) {
    const raw = Buffer.alloc(8);
    raw.writeBigUInt64LE(number(value, 4));
    return raw.readDoubleLE();
  }
  return '';
}

function fromJson(body: Buffer): ReceivedSpan[] {
  const request: { resourceSpans: JsonResourceSpans[] } = JSON.parse(body.toString());
  return request.resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? '',
        name: span.name,
        kind: span.kind,
        start: BigInt(span.startTimeUnixNano),
        end: BigInt(span.endTimeUnixNano),
        attributes: jsonAttributes(span.attributes),
        links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId, spanId })),
        status: span.status?.code ?? 0,
        resource: jsonAttributes(resource.attributes),
      })),
    ),
  );
}

type JsonAttributes = { key: string; value: Record<string, string | number | boolean> }[];

interface JsonResourceSpans {
  resource: { attributes: JsonAttributes };
  scopeSpans: { spans: JsonSpan[] }[];
}

interface JsonSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: JsonAttributes;
  links?: { traceId: string; spanId: string }[];
  status?: { code?: number };
}

function jsonAttributes(attributes: JsonAttributes): Attributes {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0] ?? '']));
}
