import { readWarnings } from '@longshore/common/warnings';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { showToast } from '../../components/feedback/toasts.js';
import { DefinitionLink } from '../../components/values/named-links.js';
import { BodyDialog } from '../../run-form/body-dialog.js';
import { Advanced, FormRows } from '../../run-form/form-rows.js';
import type { Json } from '../../run-form/form-values.js';
import {
  ADVANCED_DEFINITION_ROWS,
  ATTRIBUTES,
  DESCRIPTION_ROWS,
  field,
  IMAGE,
  RESOURCE_ROW,
  RETRY_ROW,
  TIMEOUT_ROW,
  TOPIC,
  type FieldRows,
} from '../../run-form/run-fields.js';

interface Props {
  readonly onClose: () => void;
  readonly title: string;
  /** What stands there at first. */
  readonly start: object;
  /** Versions that are there already, as `name/version`. */
  readonly known: readonly string[];
}

/** Stores a version of a definition, entered in a form or as JSON. */
export function EditDefinitionDialog({ onClose, title, start, known }: Props) {
  return (
    <BodyDialog
      onClose={onClose}
      title={title}
      what="Definition"
      start={start}
      fields={DEFINITION_FIELDS}
      noteOf={(values) => known.includes(nameOf(values)) && 'This version exists and will be replaced.'}
      storing={useStore(onClose)}
    >
      {(form) => (
        <>
          <FormRows rows={DEFINITION_ROWS} focus="id" {...form} />
          <Advanced rows={ADVANCED_DEFINITION_ROWS} {...form} />
        </>
      )}
    </BodyDialog>
  );
}

/** Stores what is entered and opens its page. */
function useStore(onClose: () => void) {
  const api = useApi();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  return useMutation({
    mutationFn: async (value: Json) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what people enter; the service checks it
      const body = value as Schemas['OpDefinitionCreate'];
      const answer = await api.POST('/definitions', { body });
      const stored = await unwrap(Promise.resolve(answer));
      return { ...stored, warnings: readWarnings(answer.response.headers) };
    },
    onSuccess: async ({ id, version, warnings }) => {
      await queries.invalidateQueries({ queryKey: ['definitions'] });
      showToast('good', <DefinitionLink name={id} version={version} />, ' is stored.');
      if (warnings.length > 0) showToast('bad', `Warning: ${warnings.join('; ')}`);
      onClose();
      navigate(`/definitions/${encodeURIComponent(id)}?version=${encodeURIComponent(version)}`);
    },
  });
}

function nameOf(value: unknown): string {
  const { id, version }: { id?: unknown; version?: unknown } = Object(value);
  return `${String(id)}/${String(version)}`;
}

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
const DEFINITION_ROWS: FieldRows = [
  [NAME, VERSION],
  ...DESCRIPTION_ROWS,
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
const DEFINITION_FIELDS = [...DEFINITION_ROWS.flat(), ...ADVANCED_DEFINITION_ROWS.flat()];
