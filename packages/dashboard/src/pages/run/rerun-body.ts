import type { Schemas } from '@longshore/client';
import { optionsOf, requestedOf } from '../../run-form/run-fields.js';

type Run = Schemas['OpRun'];
/** `Required`: a new field of the API is a compile error until it is copied. */
type RunCreate = Required<Schemas['OpRunCreate']>;

/** Fields that "Run again" lets the user edit. */
export type EditedFields = Pick<RunCreate, 'image' | 'inputs' | 'priority' | 'constraints'>;

/** The editable fields of a run. Its GPUs are not among them: the scheduler chose them. */
export function editableFields(run: Run) {
  const { image, inputs, priority } = run;
  return { image, inputs, priority, constraints: askedConstraints(run) };
}

/** Body that creates a run like this one. */
export function copyOfRun(run: Run, edited: EditedFields): RunCreate {
  return {
    ...edited,
    outputs: outputsTemplate(run),
    retry_policy: run.retry_policy,
    timeouts: run.timeouts ?? null,
    event_delivery: run.event_delivery,
    ...startOptionsOf(run),
  };
}

/** Body that creates a run from the definition of this one, which supplies all other fields. */
export function copyOfDefinitionRun(
  run: Run,
  { inputs, priority }: Pick<EditedFields, 'inputs' | 'priority'>,
): Required<Schemas['DefinitionRunCreate']> {
  return {
    inputs,
    priority,
    outputs: outputsTemplate(run),
    constraints: askedConstraints(run),
    retry_policy: run.retry_policy,
    timeouts: run.timeouts ?? null,
    event_delivery: run.event_delivery && { attributes: run.event_delivery.attributes ?? null },
    ...startOptionsOf(run),
  };
}

/** The constraints that the run was created with; its attempts may have more. */
function askedConstraints({ constraints, execution_summary: { asked_ram_mb: ramMb } }: Run) {
  return { ...requestedOf(constraints), ...(ramMb !== undefined && { ram_mb: ramMb }) };
}

/** The options and labels of the run; the new one starts as soon as it can, without a name. */
function startOptionsOf(run: Run) {
  const { selector, concurrency, labels } = run;
  return { ...optionsOf(run), selector, concurrency, labels, start_at: null, name: null };
}

/** The outputs that the run was created with; a completed run has its results in their place. */
function outputsTemplate({ state, outputs }: Run): RunCreate['outputs'] {
  return state === 'COMPLETED' ? null : outputs;
}
