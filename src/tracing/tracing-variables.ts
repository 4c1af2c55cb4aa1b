const ENDPOINTS = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] as const;
const PROTOCOLS = ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] as const;
const KNOWN_PROTOCOLS: readonly string[] = ['http/protobuf', 'http/json'];

/** Whether the environment asks for traces: an endpoint is given, and nothing switches them off. */
export function isTracingAsked(env: NodeJS.ProcessEnv): boolean {
  const isOff = textOf(env, 'OTEL_SDK_DISABLED')?.toLowerCase() === 'true';
  const exporter = textOf(env, 'OTEL_TRACES_EXPORTER')?.toLowerCase();
  return !isOff && exporter !== 'none' && ENDPOINTS.some((name) => textOf(env, name) !== undefined);
}

/** A line for every OTEL_* variable with which no span would ever arrive; none when traces are not asked for. */
export function tracingProblems(env: NodeJS.ProcessEnv): string[] {
  if (!isTracingAsked(env)) return [];
  // A URL may hold a password, so its value is not shown.
  const endpoints = ENDPOINTS.filter((name) => !isHttpUrl(textOf(env, name))).map(
    (name) => `${name} must be an http:// or https:// URL (the value is not shown)`,
  );
  const protocols = PROTOCOLS.filter(
    (name) => !KNOWN_PROTOCOLS.includes(textOf(env, name) ?? 'http/json'),
  ).map((name) => `${name} must be ${KNOWN_PROTOCOLS.join(' or ')}`);
  return [...endpoints, ...protocols];
}

/** The protocol of the traces, of those above; the standard's default when none is given. */
export function protocolOf(env: NodeJS.ProcessEnv): string {
  return textOf(env, PROTOCOLS[1]) ?? textOf(env, PROTOCOLS[0]) ?? 'http/protobuf';
}

function textOf(env: NodeJS.ProcessEnv, name: string): string | undefined {
  const text = env[name]?.trim();
  return text === '' ? undefined : text;
}

function isHttpUrl(text: string | undefined): boolean {
  return text === undefined || (URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol));
}
