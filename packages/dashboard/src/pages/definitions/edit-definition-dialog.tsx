import { readWarnings } from '@longshore/common/warnings';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { describeError, unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, TextArea } from '../../components/controls/inputs.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { DefinitionLink } from '../../components/values/named-links.js';
import { Advanced, FormRows } from '../../run-form/form-rows.js';
import { fillForm, readForm, type FormField, type Json } from '../../run-form/form-values.js';
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
import { useRunForm } from '../../run-form/use-run-form.js';
import styles from './edit-definition.module.css';

const WHOLE: FormField = {
  path: 'definition',
  kind: 'object',
  label: 'Definition as JSON',
  required: 'Enter a JSON object, such as {"a": 1}.',
};

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
  const [json, setJson] = useState<string>();
  const [isTried, setTried] = useState(false);
  // Members that no field enters; the fields change the others.
  const [base, setBase] = useState<Json>(() => ({ ...start }));
  const storing = useStore(onClose);
  const form = useRunForm({
    fields: DEFINITION_FIELDS,
    initial: fillForm(DEFINITION_FIELDS, base),
    base,
    refusal: storing.error,
    onEdit: storing.reset,
  });
  const whole = readForm([WHOLE], { definition: json });
  const problem = isTried ? whole.errors['definition'] : undefined;
  const parsed = whole.body['definition'];
  const read = (): Json | undefined =>
    json === undefined ? form.read() : parsed === undefined ? undefined : { ...parsed };

  const turn = (): void => {
    const body = read();
    if (body === undefined) setTried(true);
    else if (json === undefined) setJson(JSON.stringify(body, null, 2));
    else {
      setBase(body);
      form.set(fillForm(DEFINITION_FIELDS, body));
      setJson(undefined);
    }
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setTried(true);
    const body = read();
    if (body !== undefined && !storing.isPending) storing.mutate(body);
  };
  return (
    <Dialog onClose={onClose} title={title} width="wide">
      <form className={styles.form} onSubmit={submit} noValidate>
        <div className={styles.turn}>
          <Button size="small" kind="quiet" onClick={turn}>
            {json === undefined ? 'Edit as JSON' : 'Edit as a form'}
          </Button>
        </div>
        {json === undefined ? (
          <>
            <FormRows rows={DEFINITION_ROWS} focus="id" {...form} />
            <Advanced rows={ADVANCED_DEFINITION_ROWS} {...form} />
          </>
        ) : (
          <Field label={WHOLE.label} error={problem}>
            {(control) => (
              <TextArea
                {...control}
                className={styles.text}
                value={json}
                onChange={(text) => {
                  setJson(text);
                  storing.reset();
                }}
                rows={22}
                data-autofocus
              />
            )}
          </Field>
        )}
        <p className={styles.note} role="status">
          {known.includes(nameOf(json === undefined ? form.values : parsed)) &&
            'This version exists and will be replaced.'}
        </p>
        <p className={styles.error} role="alert">
          {storing.isError && (json === undefined ? form.rest : describeError(storing.error))}
        </p>
        <div className={styles.buttons}>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" type="submit" isBusy={storing.isPending}>
            Store
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Stores what is entered and opens its page. */
function useStore(onClose: () => void) {
  const api = useApi();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  return useMutation({
    // The service says what is wrong with it, field by field.
    mutationFn: async (value: unknown) => {
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
