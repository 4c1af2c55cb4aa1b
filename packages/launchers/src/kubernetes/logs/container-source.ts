import { isFinal, type EngineJob } from '../../launcher/engine.js';
import type { RemovalParts } from '../job-lifecycle.js';
import { RUN_CONTAINER } from '../manifest/names.js';
import type { JobStates } from '../state/job-states.js';
import { hasEnded, hasStarted, storesFiles } from '../state/job-status.js';
import type { LogQuery, LogSource } from './pod-log.js';

/** Between two looks at a container whose state is not that of its job, in milliseconds. */
const LOOK_MS = 1_000;

export interface SourceParts extends Pick<RemovalParts, 'api' | 'paths' | 'clock'> {
  readonly states: JobStates;
}

/** The log of a container of a job, from its start on. */
export function containerSource(
  { api, paths, clock, states }: SourceParts,
  job: EngineJob,
  container: string,
): LogSource {
  const isOver = () => {
    const listed = states.table.find(job);
    return listed === null || isFinal(listed.status);
  };
  const untilChanged = async (until: AbortSignal) => {
    await states.table.nextStatus(job, states.table.find(job)?.status ?? null, until);
  };
  return {
    open: async (query: LogQuery, until: AbortSignal) => {
      for (;;) {
        const pod = states.podOf(job);
        if (pod !== null && hasStarted(pod, container))
          return api.stream(paths.log(pod.metadata?.name ?? ''), { ...query, container }, until);
        if (isOver()) return nothing();
        if (container === RUN_CONTAINER) await untilChanged(until);
        else await clock.sleep(LOOK_MS, until);
        until.throwIfAborted();
      }
    },
    hasEnded: () => {
      if (isOver()) return true;
      const pod = states.podOf(job);
      const isAlone = container === RUN_CONTAINER && pod !== null && !storesFiles(pod);
      return pod !== null && !isAlone && hasEnded(pod, container);
    },
    untilChanged,
  };
}

async function* nothing(): AsyncGenerator<Buffer, void, undefined> {
  // The container has never run.
}
