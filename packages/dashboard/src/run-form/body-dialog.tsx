import type { UseMutationResult } from '@tanstack/react-query';
import { useState, type FormEvent, type ReactNode } from 'react';
import { describeError } from '../api/answers.js';
import { Button } from '../components/controls/button.js';
import { Field, TextArea } from '../components/controls/inputs.js';
import { Dialog } from '../components/feedback/dialog.js';
import styles from './body-dialog.module.css';
import { fillForm, readForm, type FormField, type Json } from './form-values.js';
import { useRunForm, type RunForm } from './use-run-form.js';

interface Props {
  readonly onClose: () => void;
  readonly title: string;
  /** What is stored, such as `Definition`. */
  readonly what: string;
  /** What stands there at first. */
  readonly start: object;
  /** What can be entered in the form; other members are entered as JSON. */
  readonly fields: readonly FormField[];
  readonly children: (form: RunForm) => ReactNode;
  /** What is to be known of what is entered. @param values by the paths of fields; undefined: it cannot be read */
  readonly noteOf?: (values: Json | undefined) => ReactNode;
  /** Stores what is entered; the service says what is wrong with it, field by field. */
  readonly storing: Pick<UseMutationResult<unknown, Error, Json>, 'error' | 'isPending' | 'mutate' | 'reset'>;
}

/** Stores a body of the API, entered in a form or as JSON. */
export function BodyDialog({ onClose, title, what, start, fields, children, noteOf, storing }: Props) {
  const [json, setJson] = useState<string>();
  const [isTried, setTried] = useState(false);
  // Members that no field enters; the fields change the others.
  const [base, setBase] = useState<Json>(() => ({ ...start }));
  const form = useRunForm({
    fields,
    initial: fillForm(fields, base),
    base,
    refusal: storing.error,
    onEdit: storing.reset,
  });
  const whole = readForm([WHOLE], { whole: json });
  const parsed: Json | undefined =
    whole.body['whole'] === undefined ? undefined : { ...Object(whole.body['whole']) };
  const read = (): Json | undefined => (json === undefined ? form.read() : parsed);

  const turn = (): void => {
    const body = read();
    if (body === undefined) setTried(true);
    else if (json === undefined) setJson(JSON.stringify(body, null, 2));
    else {
      setBase(body);
      form.set(fillForm(fields, body));
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
          children(form)
        ) : (
          <Field label={`${what} as JSON`} error={isTried ? whole.errors['whole'] : undefined}>
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
          {noteOf?.(json === undefined ? form.values : parsed)}
        </p>
        <p className={styles.error} role="alert">
          {storing.error !== null && (json === undefined ? form.rest : describeError(storing.error))}
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

const WHOLE: FormField = {
  path: 'whole',
  kind: 'object',
  label: 'JSON',
  required: 'Enter a JSON object, such as {"a": 1}.',
};
