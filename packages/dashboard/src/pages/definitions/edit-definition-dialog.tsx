import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { describeError } from '../../api/api-error.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/button.js';
import { Dialog } from '../../components/dialog.js';
import { Field } from '../../components/field.js';
import { TextArea } from '../../components/inputs.js';
import { DefinitionLink } from '../../components/named-links.js';
import { showToast } from '../../components/toast-store.js';
import styles from './edit-definition.module.css';
import { readJsonObject } from './run-inputs.js';

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly title: string;
  /** What stands there at first. */
  readonly start: object;
  /** Versions that are there already, as `name/version`. */
  readonly known: readonly string[];
}

/** Stores a version of a definition, entered as JSON. */
export function EditDefinitionDialog({ isOpen, onClose, title, ...form }: Props) {
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={title} width="wide">
      <EditForm {...form} onClose={onClose} />
    </Dialog>
  );
}

function EditForm({ start, known, onClose }: Omit<Props, 'isOpen' | 'title'>) {
  const api = useApi();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [text, setText] = useState(() => JSON.stringify(start, null, 2));
  const [isTried, setTried] = useState(false);
  const read = readJsonObject(text);
  const problem = 'problem' in read ? read.problem : undefined;
  const replaced = 'value' in read ? nameOf(read.value) : '';

  const storing = useMutation({
    // The service says what is wrong with it, field by field.
    mutationFn: (value: unknown) =>
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what people enter; the service checks it
      unwrap(api.POST('/definitions', { body: value as Schemas['OpDefinitionCreate'] })),
    onSuccess: async ({ id, version }) => {
      await queries.invalidateQueries({ queryKey: ['definitions'] });
      showToast('good', storedMessage(id, version));
      onClose();
      navigate(`/definitions/${encodeURIComponent(id)}?version=${encodeURIComponent(version)}`);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setTried(true);
    if ('value' in read && !storing.isPending) storing.mutate(read.value);
  };
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      <Field label="Definition as JSON" error={isTried ? problem : undefined}>
        {(control) => (
          <TextArea
            {...control}
            className={styles.text}
            value={text}
            onChange={setText}
            rows={22}
            data-autofocus
          />
        )}
      </Field>
      <p className={styles.note} role="status">
        {known.includes(replaced) && 'This version exists and will be replaced.'}
      </p>
      <p className={styles.error} role="alert">
        {storing.isError && describeError(storing.error)}
      </p>
      <div className={styles.buttons}>
        <Button onClick={onClose}>Back</Button>
        <Button kind="primary" type="submit" isBusy={storing.isPending}>
          Store
        </Button>
      </div>
    </form>
  );
}

function nameOf(value: unknown): string {
  const { id, version }: { id?: unknown; version?: unknown } = Object(value);
  return `${String(id)}/${String(version)}`;
}

function storedMessage(name: string, version: string) {
  return (
    <>
      <DefinitionLink name={name} version={version} /> is stored.
    </>
  );
}
