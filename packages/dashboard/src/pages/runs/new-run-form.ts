import type { Schemas } from '../../api/use-api.js';

/** What is entered, as texts. */
export const EMPTY_FORM = {
  image: '',
  inputs: '{}',
  priority: '',
  cpu: '',
  ram_mb: '',
  vram_mb: '',
  max_attempts: '',
  backoff_s: '',
  start_within_s: '',
  attempt_s: '',
  topic: '',
};
export type NewRunField = keyof typeof EMPTY_FORM;
export type NewRunForm = Readonly<Record<NewRunField, string>>;
export type FieldErrors = Readonly<Partial<Record<NewRunField, string | undefined>>>;

/** Where the service has the fields. */
const PATHS: Readonly<Record<NewRunField, string>> = {
  image: 'image',
  inputs: 'inputs',
  priority: 'priority',
  cpu: 'constraints.cpu',
  ram_mb: 'constraints.ram_mb',
  vram_mb: 'constraints.vram_mb',
  max_attempts: 'retry_policy.max_attempts',
  backoff_s: 'retry_policy.backoff_s',
  start_within_s: 'timeouts.start_within_s',
  attempt_s: 'timeouts.attempt_s',
  topic: 'event_delivery.topic',
};
const FIELDS = [
  'image',
  'inputs',
  'priority',
  'cpu',
  'ram_mb',
  'vram_mb',
  'max_attempts',
  'backoff_s',
  'start_within_s',
  'attempt_s',
  'topic',
] as const satisfies readonly NewRunField[];
const NUMBERS = [
  'priority',
  'cpu',
  'ram_mb',
  'vram_mb',
  'max_attempts',
  'backoff_s',
  'start_within_s',
  'attempt_s',
] as const;

/** The body of `POST /runs`, or what cannot be sent at all; whether values are allowed is left to the service. */
export function readForm(
  form: NewRunForm,
): { readonly body: Schemas['OpRunCreate'] } | { readonly errors: FieldErrors } {
  const errors: Partial<Record<NewRunField, string>> = {};
  if (form.image.trim() === '') errors.image = 'Name a container image.';
  const inputs = readObject(form.inputs);
  if ('problem' in inputs) errors.inputs = inputs.problem;
  const numbers: Partial<Record<(typeof NUMBERS)[number], number>> = {};
  for (const name of NUMBERS) {
    const text = form[name].trim();
    if (text === '') continue;
    if (/^[+-]?\d+$/.test(text)) numbers[name] = Number(text);
    else errors[name] = 'Enter a whole number.';
  }
  if (Object.keys(errors).length > 0 || 'problem' in inputs) return { errors };
  const { priority, max_attempts, backoff_s, start_within_s, attempt_s, ...resources } = numbers;
  const constraints = given(resources);
  const retryPolicy = given({ max_attempts, backoff_s });
  const timeouts = given({ start_within_s, attempt_s });
  return {
    body: {
      image: form.image.trim(),
      inputs: inputs.value,
      ...(priority === undefined ? {} : { priority }),
      ...(constraints === undefined ? {} : { constraints }),
      ...(retryPolicy === undefined ? {} : { retry_policy: retryPolicy }),
      ...(timeouts === undefined ? {} : { timeouts }),
      ...(form.topic === '' ? {} : { event_delivery: { topic: form.topic } }),
    },
  };
}

/** The numbers that are given; undefined when none is. */
function given(
  numbers: Readonly<Record<string, number | undefined>>,
): Readonly<Record<string, number>> | undefined {
  const entries = Object.entries(numbers).filter(
    (entry): entry is [string, number] => entry[1] !== undefined,
  );
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** The lines of a refusal at the fields that they name, and those that name none. */
export function placeErrors(lines: readonly string[]): {
  readonly fields: FieldErrors;
  readonly rest: string[];
} {
  const fields: Partial<Record<NewRunField, string>> = {};
  const rest: string[] = [];
  for (const line of lines) {
    const field = FIELDS.find(
      (name) => line.startsWith(`${PATHS[name]} `) || line.startsWith(`${PATHS[name]}.`),
    );
    if (field === undefined) rest.push(line);
    else fields[field] = [fields[field], line].filter((text) => text !== undefined).join('\n');
  }
  return { fields, rest };
}

/** What is wrong with the text of the inputs, while it is typed; undefined when nothing is. */
export function problemOfInputs(text: string): string | undefined {
  const inputs = readObject(text);
  return 'problem' in inputs ? inputs.problem : undefined;
}

type JsonObject = Readonly<Record<string, unknown>>;

function readObject(text: string): { readonly value: JsonObject } | { readonly problem: string } {
  if (text.trim() === '') return { value: {} };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { problem: 'Inputs are a JSON object: { … }' };
  }
  return { value: { ...value } };
}
