import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { describeError } from '../../api/api-error.js';
import { Button } from '../controls/button.js';
import styles from './confirm-dialog.module.css';
import { Dialog } from './dialog.js';

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** A question, such as `Drain worker-1?`. */
  readonly title: string;
  /** What will happen. */
  readonly children: ReactNode;
  /** The verb of the button, such as `Drain`. */
  readonly confirmLabel: string;
  readonly isDangerous?: boolean;
  readonly isDisabled?: boolean;
  readonly width?: 'narrow' | 'wide';
  /** First part of the keys of the queries that are read again afterwards, also when it failed; default: none. */
  readonly refreshes?: string;
  /** Does it; the dialog shows the error when it fails. */
  readonly onConfirm: () => Promise<unknown>;
  /** Called when it is done; default: the dialog closes. */
  readonly onDone?: () => void;
}

/** Asks before something is done, and stays until it is done. */
export function ConfirmDialog(props: Props) {
  const { isOpen, onClose, title, children, confirmLabel, isDangerous = false, isDisabled = false } = props;
  const { width = 'narrow', refreshes, onConfirm, onDone = onClose } = props;
  const queries = useQueryClient();
  const action = useMutation({
    mutationFn: async () => {
      try {
        await onConfirm();
      } finally {
        if (refreshes !== undefined) await queries.invalidateQueries({ queryKey: [refreshes] });
      }
    },
    onSuccess: onDone,
  });
  const close = (): void => {
    action.reset();
    onClose();
  };
  return (
    <Dialog
      isOpen={isOpen}
      onClose={close}
      title={title}
      width={width}
      actions={
        <>
          <Button onClick={close}>Back</Button>
          <Button
            kind={isDangerous ? 'danger' : 'primary'}
            isBusy={action.isPending}
            disabled={isDisabled}
            onClick={() => action.mutate()}
            data-autofocus
          >
            {confirmLabel}
          </Button>
        </>
      }
    >
      {children}
      <p role="alert" className={styles.error}>
        {action.isError && describeError(action.error)}
      </p>
    </Dialog>
  );
}
