const ENDPOINTS = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] as const;
const PROTOCOLS = ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] as const;
/** Numbers of the queue of spans: with less than one of them it would never be sent. */
const SIZES = ['OTEL_BSP_MAX_QUEUE_SIZE', 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE'] as const;
const SAMPLERS: readonly string[] = ['always_on', 'always_off', 'traceidratio'].flatMap((name) => [
  name,
  `parentbased_${name}`,
]);
const KNOWN_PROTOCOLS: readonly string[] = ['http/protobuf', 'http/json'];

/** Whether the environment asks for traces: an endpoint is given, and nothing switches them off. */
export function isTracingAsked(env: NodeJS.ProcessEnv): boolean {
  const isOff = textOf(env, 'OTEL_SDK_DISABLED')?.toLowerCase() === 'true';
  const exporter = textOf(env, 'OTEL_TRACES_EXPORTER')?.toLowerCase();
  return !isOff && exporter !== 'none' && ENDPOINTS.some((name) => textOf(env, name) !== undefined);
}

/**
 * A line for every OTEL_* variable with which no span would ever arrive, or not those that were asked for; none when traces
 * are not asked for. Of two variables of which one is for traces alone, that one counts and the other does not matter.
 */
export function tracingProblems(env: NodeJS.ProcessEnv): string[] {
  if (!isTracingAsked(env)) return [];
  const problems: string[] = [];
  const check = (name: string, isGood: (text: string) => boolean, rule: string): void => {
    const text = textOf(env, name);
    if (text !== undefined && !isGood(text)) problems.push(`${name} must be ${rule}`);
  };
  // A URL may hold a password, so its value is not shown.
  check(nameOf(env, ENDPOINTS), isHttpUrl, 'an http:// or https:// URL (the value is not shown)');
  check(nameOf(env, PROTOCOLS), (text) => KNOWN_PROTOCOLS.includes(text), KNOWN_PROTOCOLS.join(' or '));
  check('OTEL_TRACES_EXPORTER', (text) => text.toLowerCase() === 'otlp', 'otlp or none');
  check('OTEL_TRACES_SAMPLER', (text) => SAMPLERS.includes(text), `one of ${SAMPLERS.join(', ')}`);
  if (textOf(env, 'OTEL_TRACES_SAMPLER')?.endsWith('traceidratio') === true) {
    check('OTEL_TRACES_SAMPLER_ARG', isRatio, 'a number from 0 to 1');
  }
  for (const name of SIZES) check(name, isSize, 'a whole number from 1');
  return problems;
}

/** The protocol of the traces, of those above; the standard's default when none is given. */
export function protocolOf(env: NodeJS.ProcessEnv): string {
  return textOf(env, nameOf(env, PROTOCOLS)) ?? 'http/protobuf';
}

/** Which of the two variables counts: the one for traces alone when it is given. */
function nameOf(env: NodeJS.ProcessEnv, [general, forTraces]: readonly [string, string]): string {
  return textOf(env, forTraces) === undefined ? general : forTraces;
}

function isSize(text: string): boolean {
  return /^[1-9]\d{0,8}$/.test(text);
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
