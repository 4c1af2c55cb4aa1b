import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState, type FormEvent } from 'react';
import { ApiError, describeError, unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, PasswordInput, Select, TextInput } from '../../components/controls/inputs.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { placeErrors } from '../../run-form/form-values.js';
import styles from './secrets-page.module.css';

const PATHS = ['name', 'kind', 'value.server', 'value.username', 'value.password', 'value', 'value_base64'];
const FIELDS = PATHS.map((path) => ({ path }));

interface Props {
  readonly onClose: () => void;
  /** The secret that gets another value; a new one without. */
  readonly replaced?: Secret;
}

/** Creates a secret, or replaces the value of one. */
export function SecretDialog({ onClose, replaced }: Props) {
  const [name, setName] = useState(replaced?.name ?? '');
  const [kind, setKind] = useState<SecretKind>(replaced?.kind ?? 'opaque');
  const [login, setLogin] = useState({ server: '', username: '' });
  const [problem, setProblem] = useState<string>();
  // The value is in the controls of the browser alone: not in the state of React, nor among the variables of the mutation.
  const typed = useRef<HTMLInputElement>(null);
  const file = useRef<HTMLInputElement>(null);
  const storing = useStore(name.trim(), onClose, async () => {
    const chosen = file.current?.files?.[0];
    const bytes =
      chosen === undefined
        ? new TextEncoder().encode(typed.current?.value)
        : new Uint8Array(await chosen.arrayBuffer());
    const value = toText(bytes);
    if (value === undefined) {
      if (kind === 'opaque') return { kind, value_base64: toBase64(bytes) };
      throw new Error('The file is not UTF-8 text without NUL, which only an opaque secret need not be.');
    }
    return kind === 'registry' ? { kind, value: { ...login, password: value } } : { kind, value };
  });
  const { error } = storing;
  const lines = error instanceof ApiError ? error.errors : [];
  const refused = placeErrors(lines, FIELDS);
  const errors = refused.fields;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const hasValue = (typed.current?.value ?? '') !== '' || (file.current?.files?.length ?? 0) > 0;
    setProblem(hasValue ? undefined : 'Enter the value, or choose a file.');
    if (hasValue && !storing.isPending) storing.mutate();
  };
  const label = kind === 'registry' ? 'Password or token' : 'Value';
  return (
    <Dialog onClose={onClose} title={replaced === undefined ? 'New secret' : `Replace ${replaced.name}`}>
      <form className={styles.form} onSubmit={submit} noValidate autoComplete="off">
        {replaced === undefined && (
          <Field label="Name" hint="Runs refer to it by this name." error={errors['name']}>
            {(control) => (
              <TextInput
                {...control}
                mono
                value={name}
                onChange={setName}
                autoComplete="off"
                spellCheck={false}
                data-autofocus
              />
            )}
          </Field>
        )}
        <Field label="Kind" error={errors['kind']}>
          {(control) => <Select {...control} value={kind} options={KINDS} onChange={setKind} />}
        </Field>
        {kind === 'registry' && (
          <>
            <Field
              label="Server"
              hint="Such as ghcr.io or registry.example.com:5000"
              error={errors['value.server']}
            >
              {(control) => (
                <TextInput
                  {...control}
                  mono
                  autoComplete="off"
                  value={login.server}
                  onChange={(server) => setLogin({ ...login, server })}
                />
              )}
            </Field>
            <Field label="User name" error={errors['value.username']}>
              {(control) => (
                <TextInput
                  {...control}
                  autoComplete="off"
                  value={login.username}
                  onChange={(username) => setLogin({ ...login, username })}
                />
              )}
            </Field>
          </>
        )}
        <Field
          label={label}
          hint="It cannot be read again, neither here nor in the API."
          error={problem ?? errors['value.password'] ?? errors['value'] ?? errors['value_base64']}
        >
          {(control) => (
            <PasswordInput {...control} ref={typed} data-autofocus={replaced !== undefined || undefined} />
          )}
        </Field>
        <Field label="Or the content of a file" hint="For values of several lines or of bytes, such as keys.">
          {(control) => <input {...control} ref={file} type="file" className={styles.file} />}
        </Field>
        <p className={styles.error} role="alert">
          {error !== null && (lines.length === 0 ? describeError(error) : refused.rest.join('\n'))}
        </p>
        <div className={styles.buttons}>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" type="submit" isBusy={storing.isPending}>
            {replaced === undefined ? 'Create' : 'Replace'}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Undefined: other bytes than the text of a request, which has no NUL. */
function toText(bytes: Uint8Array): string | undefined {
  try {
    const text = UTF_8.decode(bytes);
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}

function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}

/** Sends the secret. @param read the kind and the value, read when they are sent and kept nowhere */
function useStore(name: string, onStored: () => void, read: () => Promise<Schemas['SecretInput']>) {
  const api = useApi();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async () => {
      const params = { path: { name } };
      await unwrap(api.PUT('/secrets/{name}', { params, body: await read() }));
    },
    onSuccess: async () => {
      onStored();
      showToast('good', `The secret ${name} is stored.`);
      await queries.invalidateQueries({ queryKey: ['secrets'] });
    },
  });
}

/** A secret as the API has it: everything but its value. */
export type Secret = Schemas['Secret'];
type SecretKind = Secret['kind'];

const KINDS = [
  ['opaque', 'Opaque: any text, for an environment variable, or any file'],
  ['map', 'Map: a JSON object of environment variables'],
  ['registry', 'Registry: a login for the pull of an image'],
] as const satisfies readonly (readonly [SecretKind, string])[];
