import type { FormField } from '../../run-form/form-values.js';
import {
  ATTRIBUTES,
  ADVANCED_DEFINITION_ROWS,
  IMAGE,
  RESOURCE_ROW,
  RETRY_ROW,
  TIMEOUT_ROW,
  TOPIC,
  type FieldRows,
} from '../../run-form/run-fields.js';

const NAME: FormField = { path: 'id', kind: 'text', label: 'Name', hint: 'The id of the definition' };
const VERSION: FormField = { path: 'version', kind: 'text', label: 'Version', hint: 'Such as 1.0.0' };
const INPUT_SPECS: FormField = {
  path: 'input_specs',
  kind: 'object',
  label: 'Inputs',
  hint: 'JSON: by name the type, whether it is required, and the default. Without any, all inputs are accepted.',
};
const OUTPUT_SPECS: FormField = {
  path: 'output_specs',
  kind: 'object',
  label: 'Outputs',
  hint: 'JSON: by name the type; optional.',
};

/** The fields of a definition that most have. */
export const DEFINITION_ROWS: FieldRows = [
  [NAME, VERSION],
  [IMAGE],
  [INPUT_SPECS],
  [OUTPUT_SPECS],
  RETRY_ROW,
  RESOURCE_ROW,
  TIMEOUT_ROW,
  [TOPIC],
  [ATTRIBUTES],
];

/** Every field of a definition. */
export const DEFINITION_FIELDS = [...DEFINITION_ROWS.flat(), ...ADVANCED_DEFINITION_ROWS.flat()];
