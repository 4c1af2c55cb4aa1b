import { SCOPES, type Scope } from '@longshore/client/constants';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { ApiError, describeError, unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Checkbox, Field, Select, TextInput } from '../../components/controls/inputs.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { ShownOnceDialog } from '../../components/feedback/shown-once-dialog.js';
import { fromLocalInput, offsetHint, readLocalInput } from '../../lib/local-time.js';
import { placeErrors } from '../../run-form/form-values.js';
import styles from './keys-page.module.css';

type CreatedKey = Schemas['CreatedApiKey'];

/** Makes a key and shows it: once, for the service keeps only its hash. */
export function CreateKeyDialog({ onClose }: { readonly onClose: () => void }) {
  const [made, setMade] = useState<CreatedKey>();
  if (made === undefined) {
    return (
      <Dialog onClose={onClose} title="New key">
        <CreateKeyForm onMade={setMade} onCancel={onClose} />
      </Dialog>
    );
  }
  return (
    <ShownOnceDialog
      onClose={onClose}
      title={`The key ${made.name}`}
      what="key"
      label="API key"
      value={made.key}
    >
      It may act as {made.scopes.join(', ')}. Send it as <code>X-API-Key</code>.
    </ShownOnceDialog>
  );
}

/** What the scopes permit, in the order of the form. */
const PERMISSIONS: Readonly<Record<Scope, string>> = {
  client: 'create, read, cancel and retry runs; definitions; feeds; this dashboard',
  worker: 'claim runs and report on them',
  metrics: 'read the metrics',
  admin: 'everything, also keys, audit and direct changes',
};

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

interface CreateKeyFormProps {
  readonly onMade: (key: Schemas['CreatedApiKey']) => void;
  readonly onCancel: () => void;
}

/** Asks what a new key is to be called, what it may do and how long. */
function CreateKeyForm({ onMade, onCancel }: CreateKeyFormProps) {
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
  const { error } = creation;
  const lines = error instanceof ApiError ? error.errors : [];
  const refused = placeErrors(lines, [{ path: 'name' }, { path: 'scopes' }, { path: 'expires_at' }]);
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
        error={shown.name ?? refused.fields['name']}
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
          {shown.scopes ?? refused.fields['scopes']}
        </p>
      </fieldset>
      <Field label="Expires" error={refused.fields['expires_at']}>
        {(control) => <Select {...control} value={lifetime} options={LIFETIMES} onChange={setLifetime} />}
      </Field>
      {lifetime === 'date' && (
        <Field label="Date and time, here" hint={offsetHint(date)} error={shown.date}>
          {(control) => <TextInput {...control} type="datetime-local" value={date} onChange={setDate} />}
        </Field>
      )}
      <p className={styles.error} role="alert">
        {error !== null && (lines.length === 0 ? describeError(error) : refused.rest.join('\n'))}
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
