import { useState } from 'react';
import { Button } from '../../components/controls/button.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { Field } from '../../components/controls/field.js';
import { TextInput } from '../../components/controls/inputs.js';
import type { Schemas } from '../../api/use-api.js';
import { CreateKeyForm } from './create-key-form.js';
import styles from './keys-page.module.css';

type CreatedKey = Schemas['CreatedApiKey'];

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

/** Makes a key and shows it: once, for the service keeps only its hash. */
export function CreateKeyDialog({ isOpen, onClose }: Props) {
  const [made, setMade] = useState<CreatedKey>();
  const [isWarned, setWarned] = useState(false);
  const close = (): void => {
    setMade(undefined);
    setWarned(false);
    onClose();
  };
  return (
    <Dialog
      isOpen={isOpen}
      // A slip of the hand must not lose the key.
      onClose={made === undefined || isWarned ? close : () => setWarned(true)}
      title={made === undefined ? 'New key' : `The key ${made.name}`}
      {...(made === undefined
        ? {}
        : {
            actions: (
              <Button kind="primary" onClick={close}>
                I have kept it
              </Button>
            ),
          })}
    >
      {made === undefined ? (
        <CreateKeyForm onMade={setMade} onCancel={close} />
      ) : (
        <Secret made={made} isWarned={isWarned} />
      )}
    </Dialog>
  );
}

function Secret({
  made: { key, scopes },
  isWarned,
}: {
  readonly made: CreatedKey;
  readonly isWarned: boolean;
}) {
  return (
    <>
      <p>
        It may act as {scopes.join(', ')}. Send it as <code>X-API-Key</code>.
      </p>
      <p className={styles.warning} role="alert">
        {isWarned
          ? 'Copy the key first: when you close this dialog again, the key is lost.'
          : 'Copy it now. It is shown this once and cannot be read again.'}
      </p>
      <div className={styles.secret}>
        <Field label="API key" isLabelHidden>
          {(control) => (
            <TextInput
              {...control}
              value={key}
              onChange={() => undefined}
              onFocus={(event) => event.currentTarget.select()}
              readOnly
              mono
            />
          )}
        </Field>
        <CopyButton what="API key" text={key} />
      </div>
    </>
  );
}
