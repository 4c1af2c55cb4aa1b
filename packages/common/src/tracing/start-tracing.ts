import { isTracingAsked } from './tracing-variables.js';
import type { Tracing } from './tracing.js';

export interface TracedProgram {
  /** Default of OTEL_SERVICE_NAME. */
  readonly name: string;
  readonly version?: string;
  /** Called once a minute at most, when spans are lost. */
  readonly warn: (reason: string) => void;
}

/**
 * Starts tracing if the environment enables it; loads the SDK only then.
 * @param env of the process: the SDK reads it, too
 * @returns null when tracing is disabled
 */
export async function startTracing(env: NodeJS.ProcessEnv, program: TracedProgram): Promise<Tracing | null> {
  if (!isTracingAsked(env)) return null;
  const { OpenTelemetry } = await import('./open-telemetry.js');
  return OpenTelemetry.start(env, program);
}
