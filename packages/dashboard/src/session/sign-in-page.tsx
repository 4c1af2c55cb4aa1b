import { QueryClientProvider, useMutation } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { ApiError, describeError, unwrap } from '../api/answers.js';
import { createApi, createQueryClient } from '../api/use-api.js';
import { Button } from '../components/controls/button.js';
import { Icon } from '../components/controls/icon.js';
import { Field, TextInput } from '../components/controls/inputs.js';
import { Logo } from '../shell/logo.js';
import { ThemeToggle } from '../shell/theme.js';
import { UnreachableBanner } from '../shell/unreachable-banner.js';
import styles from './sign-in-page.module.css';

/** What a header can carry. */
const KEY_FORM = /^[\x21-\x7e]+$/;

interface Props {
  /** Why one has to sign in again. */
  readonly notice: string | undefined;
  readonly onSignIn: (apiKey: string) => void;
}

/** Asks for an API key and tries it. */
export function SignInPage(props: Props) {
  const [client] = useState(() => createQueryClient(() => undefined));
  return (
    <QueryClientProvider client={client}>
      <main className={styles.page}>
        <div className={styles.card}>
          <header className={styles.header}>
            <Logo />
            <ThemeToggle />
          </header>
          <SignInForm {...props} />
        </div>
      </main>
      <UnreachableBanner onBack={() => undefined} />
    </QueryClientProvider>
  );
}

function SignInForm({ notice, onSignIn }: Props) {
  const [text, setText] = useState('');
  const [isShown, setShown] = useState(false);
  const attempt = useMutation({ mutationFn: tryKey, onSuccess: onSignIn });

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    attempt.mutate(text.trim());
  };
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      <h1>Sign in</h1>
      {notice !== undefined && (
        <p className={styles.notice} role="status">
          {notice}
        </p>
      )}
      <Field label="API key" error={attempt.isError ? explain(attempt.error) : undefined}>
        {(control) => (
          <div className={styles.key}>
            <TextInput
              {...control}
              type={isShown ? 'text' : 'password'}
              value={text}
              onChange={setText}
              autoComplete="current-password"
              spellCheck={false}
              autoFocus
              required
              mono
            />
            <Button onClick={() => setShown(!isShown)} aria-pressed={isShown}>
              <Icon name={isShown ? 'hidden' : 'visible'} />
              <span className="visually-hidden">Show the key</span>
            </Button>
          </div>
        )}
      </Field>
      <Button kind="primary" type="submit" isBusy={attempt.isPending}>
        Sign in
      </Button>
      <p className={styles.hint}>
        The first start of a service writes an admin key to <code>admin-key</code> in its data directory;
        admins make further ones. The key stays in this tab and is forgotten when you close it.
      </p>
    </form>
  );
}

/** @returns the key, when the service takes it */
async function tryKey(apiKey: string): Promise<string> {
  if (apiKey === '') throw new Error('Enter an API key.');
  if (!KEY_FORM.test(apiKey)) throw new Error('A key has no spaces and no special characters.');
  await unwrap(createApi(apiKey).GET('/whoami'));
  return apiKey;
}

function explain(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) {
    return 'The service does not know this key, or it has expired or was revoked.';
  }
  return describeError(error);
}
