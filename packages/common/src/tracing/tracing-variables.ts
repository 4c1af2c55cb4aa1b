const ENDPOINTS = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] as const;
const PROTOCOLS = ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] as const;
/** Sizes of the span queue, at least 1. */
const SIZES = ['OTEL_BSP_MAX_QUEUE_SIZE', 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE'] as const;
const SAMPLERS: readonly string[] = ['always_on', 'always_off', 'traceidratio'].flatMap((name) => [
  name,
  `parentbased_${name}`,
]);
const KNOWN_PROTOCOLS: readonly string[] = ['http/protobuf', 'http/json'];

/** Whether the environment enables tracing: it sets an endpoint and does not disable the SDK or the exporter. */
export function isTracingAsked(env: NodeJS.ProcessEnv): boolean {
  const isOff = textOf(env, 'OTEL_SDK_DISABLED')?.toLowerCase() === 'true';
  const exporter = textOf(env, 'OTEL_TRACES_EXPORTER')?.toLowerCase();
  return !isOff && exporter !== 'none' && ENDPOINTS.some((name) => textOf(env, name) !== undefined);
}

/**
 * One line for each OTEL_* variable that would prevent the export of spans; none when tracing is disabled. A variable for
 * traces takes precedence over the general one.
 */
export function tracingProblems(env: NodeJS.ProcessEnv): string[] {
  if (!isTracingAsked(env)) return [];
  const problems: string[] = [];
  const check = (name: string, isGood: (text: string) => boolean, rule: string): void => {
    const text = textOf(env, name);
    if (text !== undefined && !isGood(text)) problems.push(`${name} must be ${rule}`);
  };
  // The URL may contain a password.
  check(nameOf(env, ENDPOINTS), isHttpUrl, 'an http:// or https:// URL (the value is not shown)');
  check(
    nameOf(env, PROTOCOLS),
    (text) => KNOWN_PROTOCOLS.includes(text),
    `${KNOWN_PROTOCOLS.join(' or ')}; grpc is not supported: use the collector's port for HTTP, 4318 (docs/tracing.md)`,
  );
  check('OTEL_TRACES_EXPORTER', (text) => text.toLowerCase() === 'otlp', 'otlp or none');
  check('OTEL_TRACES_SAMPLER', (text) => SAMPLERS.includes(text), `one of ${SAMPLERS.join(', ')}`);
  if (textOf(env, 'OTEL_TRACES_SAMPLER')?.endsWith('traceidratio') === true) {
    check('OTEL_TRACES_SAMPLER_ARG', isRatio, 'a number from 0 to 1');
  }
  for (const name of SIZES) check(name, (text) => /^[1-9]\d{0,8}$/.test(text), 'a whole number from 1');
  return problems;
}

/** The OTLP protocol of traces. */
export function protocolOf(env: NodeJS.ProcessEnv): string {
  return textOf(env, nameOf(env, PROTOCOLS)) ?? 'http/protobuf';
}

/** The variable that takes precedence. */
function nameOf(env: NodeJS.ProcessEnv, [general, forTraces]: readonly [string, string]): string {
  return textOf(env, forTraces) === undefined ? general : forTraces;
}

function isRatio(text: string): boolean {
  return /^(?:0?\.\d+|[01](?:\.0*)?)$/.test(text);
}

function textOf(env: NodeJS.ProcessEnv, name: string): string | undefined {
  const text = env[name]?.trim();
  return text === '' ? undefined : text;
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
}
