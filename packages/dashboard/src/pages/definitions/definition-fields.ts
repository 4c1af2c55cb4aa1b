import {
  ATTRIBUTES,
  ADVANCED_DEFINITION_ROWS,
  IMAGE,
  RESOURCE_ROW,
  RETRY_ROW,
  TIMEOUT_ROW,
  TOPIC,
  field,
  type FieldRows,
} from '../../run-form/run-fields.js';

const NAME = field('text', 'id', 'Name', 'The id of the definition');
const VERSION = field('text', 'version', 'Version', 'Such as 1.0.0');
const INPUT_SPECS = field(
  'object',
  'input_specs',
  'Inputs',
  'JSON: by name the type, whether it is required, and the default. Without any, all inputs are accepted.',
);
const OUTPUT_SPECS = field('object', 'output_specs', 'Outputs', 'JSON: by name the type; optional.');

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
