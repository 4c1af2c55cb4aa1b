import { useCallback, useState, type ReactNode } from 'react';
import { readStoredKey, storeKey } from './stored-key.js';
import { SignInPage } from './sign-in-page.js';
import { SignedIn } from './signed-in.js';

const KEY_REFUSED =
  'The service no longer takes your key: it has expired or was revoked. Sign in with another one; you will come back to this page.';

/**
 * Shows its children when a user is signed in, else the sign-in page. The address stays as it is meanwhile,
 * so signing in leads to where one wanted to go.
 */
export function SessionGate({ children }: { readonly children: ReactNode }) {
  const [apiKey, setApiKey] = useState(readStoredKey);
  const [notice, setNotice] = useState<string>();

  const signIn = useCallback((key: string) => {
    storeKey(key);
    setNotice(undefined);
    setApiKey(key);
  }, []);
  const leave = useCallback((reason?: string) => {
    storeKey(null);
    setNotice(reason);
    setApiKey(null);
  }, []);
  const signOut = useCallback(() => leave(), [leave]);
  const refuseKey = useCallback(() => leave(KEY_REFUSED), [leave]);

  if (apiKey === null) return <SignInPage notice={notice} onSignIn={signIn} />;
  return (
    <SignedIn key={apiKey} apiKey={apiKey} signOut={signOut} refuseKey={refuseKey}>
      {children}
    </SignedIn>
  );
}
