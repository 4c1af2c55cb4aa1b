import { SCOPES } from '@longshore/client/constants';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { ApiError, describeError } from '../../api/api-error.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field } from '../../components/controls/field.js';
import { Checkbox, Select, TextInput } from '../../components/controls/inputs.js';
import { fromLocalInput, offsetHint, readLocalInput } from '../../lib/local-time.js';
import styles from './keys-page.module.css';
import { PERMISSIONS } from './key-view.js';

const LIFETIMES = [
  ['', 'Never'],
  ['1', 'In a day'],
  ['7', 'In 7 days'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
  ['date', 'At a date …'],
] as const;
type Lifetime = (typeof LIFETIMES)[number][0];

interface Props {
  readonly onMade: (key: Schemas['CreatedApiKey']) => void;
  readonly onCancel: () => void;
}

/** Asks what a new key is to be called, what it may do and how long. */
export function CreateKeyForm({ onMade, onCancel }: Props) {
  const api = useApi();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<ReadonlySet<string>>(new Set(['client']));
  const [lifetime, setLifetime] = useState<Lifetime>('');
  const [date, setDate] = useState('');
  const [isTried, setTried] = useState(false);

  const creation = useMutation({
    mutationFn: () => {
      const expiry = expiryOf(lifetime, date);
      const body = {
        name: name.trim(),
        scopes: SCOPES.filter((scope) => scopes.has(scope)),
        ...(expiry === undefined ? {} : { expires_at: expiry }),
      };
      return unwrap(api.POST('/api-keys', { body }));
    },
    onSuccess: async (made) => {
      onMade(made);
      await queries.invalidateQueries({ queryKey: ['api-keys'] });
    },
  });
  const entered = readLocalInput(date);
  const problems = {
    name: name.trim() === '' ? 'Say whose key it is.' : undefined,
    scopes: scopes.size === 0 ? 'Choose at least one.' : undefined,
    date: lifetime === 'date' && 'problem' in entered ? entered.problem : undefined,
  };
  const shown = isTried ? problems : { name: undefined, scopes: undefined, date: undefined };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setTried(true);
    if (!creation.isPending && Object.values(problems).every((problem) => problem === undefined)) {
      creation.mutate();
    }
  };
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      <Field
        label="Name"
        hint="Who or what uses it; the audit log shows it."
        error={shown.name ?? refusalOf(creation.error, 'name')}
      >
        {(control) => (
          <TextInput
            {...control}
            value={name}
            onChange={setName}
            maxLength={128}
            autoComplete="off"
            data-autofocus
          />
        )}
      </Field>
      <fieldset className={styles.scopes}>
        <legend>Scopes</legend>
        {Object.entries(PERMISSIONS).map(([scope, words]) => (
          <Checkbox
            key={scope}
            isChecked={scopes.has(scope)}
            onChange={(isChecked) => {
              const next = new Set(scopes);
              if (isChecked) next.add(scope);
              else next.delete(scope);
              setScopes(next);
            }}
          >
            <span>
              <strong>{scope}</strong> <span className="muted">{words}</span>
            </span>
          </Checkbox>
        ))}
        <p className={styles.error} role="alert">
          {shown.scopes ?? refusalOf(creation.error, 'scopes')}
        </p>
      </fieldset>
      <Field label="Expires" error={refusalOf(creation.error, 'expires_at')}>
        {(control) => <Select {...control} value={lifetime} options={LIFETIMES} onChange={setLifetime} />}
      </Field>
      {lifetime === 'date' && (
        <Field label="Date and time, here" hint={offsetHint(date)} error={shown.date}>
          {(control) => <TextInput {...control} type="datetime-local" value={date} onChange={setDate} />}
        </Field>
      )}
      <p className={styles.error} role="alert">
        {creation.isError && !hasPlace(creation.error) && describeError(creation.error)}
      </p>
      <div className={styles.buttons}>
        <Button onClick={onCancel}>Back</Button>
        <Button kind="primary" type="submit" isBusy={creation.isPending}>
          Create
        </Button>
      </div>
    </form>
  );
}

function expiryOf(lifetime: Lifetime, date: string): string | undefined {
  if (lifetime === '') return undefined;
  return lifetime === 'date' ? fromLocalInput(date) : `${lifetime}d`;
}

/** What the service said about a field, if it did. */
function refusalOf(error: unknown, field: string): string | undefined {
  const lines = error instanceof ApiError ? error.errors : [];
  return lines.find((line) => line.startsWith(`${field} `));
}

function hasPlace(error: unknown): boolean {
  return ['name', 'scopes', 'expires_at'].some((field) => refusalOf(error, field) !== undefined);
}
