/** What every worker sets in the environment of a container itself: no run and no secret may. */
export const WORKER_VARIABLES = [
  'SERVICE_INPUT_PATH',
  'SERVICE_OUTPUT_PATH',
  'SERVICE_RUN_ID',
  'SERVICE_RUN_ATTEMPT',
  'SERVICE_CPU',
  'SERVICE_RAM_MB',
] as const;

/** What workers set for the runs of schedules: the time by the schedule. */
export const SCHEDULED_FOR = 'SERVICE_SCHEDULED_FOR';

/** The place of the run in its array, and how many members that has. */
export const ARRAY_INDEX = 'SERVICE_ARRAY_INDEX';
export const ARRAY_SIZE = 'SERVICE_ARRAY_SIZE';

/** What stands before the paths of `artifacts` for a program: nothing in a container, a folder of the attempt for a process. */
export const FILES_ROOT = 'SERVICE_FILES_ROOT';

const RESERVED = [...WORKER_VARIABLES, SCHEDULED_FOR, ARRAY_INDEX, ARRAY_SIZE, FILES_ROOT];

/** The name of an environment variable that a run may set: as Kubernetes takes them. */
export const VARIABLE_NAME = {
  pattern: new RegExp(`^(?!(?:${RESERVED.join('|')})$)[A-Za-z_.-][A-Za-z0-9_.-]*$`),
  form: `letters, digits, "_", "-" and ".", not starting with a digit, and none of ${RESERVED.join(', ')}`,
} as const;
