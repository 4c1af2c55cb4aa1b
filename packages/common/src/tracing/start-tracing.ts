import { isTracingAsked } from './tracing-variables.js';
import type { Tracing } from './tracing.js';

/** Who traces. */
export interface TracedProgram {
  /** Name of the service in its traces unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES give another. */
  readonly name: string;
  readonly version?: string;
  /** Told, once a minute at most, why spans are lost. */
  readonly warn: (reason: string) => void;
}

/**
 * Begins to trace if the environment asks for it; nothing of what that takes is loaded otherwise.
 * @param env the process's: the SDK reads its variables from there by itself
 * @returns null when it does not ask for it
 */
export async function startTracing(env: NodeJS.ProcessEnv, program: TracedProgram): Promise<Tracing | null> {
  if (!isTracingAsked(env)) return null;
  const { OpenTelemetry } = await import('./open-telemetry.js');
  return OpenTelemetry.start(env, program);
}
