import { useState } from 'react';
import { Button } from '../../components/controls/button.js';
import { SecretDialog } from './secret-dialog.js';
import type { Secret } from './secret-view.js';

/** Asks for another value of a secret. */
export function ReplaceButton({ secret }: { readonly secret: Secret }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button size="small" aria-label={`Replace ${secret.name}`} onClick={() => setOpen(true)}>
        Replace
      </Button>
      <SecretDialog isOpen={isOpen} onClose={() => setOpen(false)} replaced={secret} />
    </>
  );
}
