import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useId, useRef, type ReactNode } from 'react';
import { describeError } from '../../api/answers.js';
import { classNames } from '../../lib/class-names.js';
import { Button } from '../controls/button.js';
import { IconButton } from '../controls/icon.js';
import confirmDialogStyles from './confirm-dialog.module.css';
import styles from './dialog.module.css';

interface Props {
  /** Default: open, by a parent that renders it only then. */
  readonly isOpen?: boolean;
  /** Escape, the cross and a click beside it ask for it. */
  readonly onClose: () => void;
  readonly title: ReactNode;
  readonly children: ReactNode;
  /** Buttons at its foot. */
  readonly actions?: ReactNode;
  readonly width?: 'narrow' | 'wide';
}

/**
 * A modal dialog: the browser's own, which keeps the focus inside, closes on Escape, and gives the focus back to where it
 * was. What is inside exists only while it is open; the control with `data-autofocus` has the focus first.
 */
export function Dialog({ isOpen = true, onClose, title, children, actions, width = 'narrow' }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const element = dialog.current;
    if (!isOpen || element === null) return undefined;
    // The element is gone by the time it is to be closed, so the browser cannot give the focus back.
    const before = document.activeElement;
    element.showModal();
    // The browser chooses the first control, which is the cross.
    element.querySelector<HTMLElement>('[data-autofocus]')?.focus();
    return () => {
      element.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, [isOpen]);
  if (!isOpen) return null;
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-noninteractive-element-interactions -- the key for it is Escape
    <dialog
      ref={dialog}
      className={classNames(styles.dialog, width === 'wide' && styles.wide)}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div className={styles.frame}>
        <header className={styles.header}>
          <h2 id={titleId}>{title}</h2>
          <IconButton label="Close" icon="close" onClick={onClose} />
        </header>
        <div className={styles.body}>{children}</div>
        {actions !== undefined && <footer className={styles.actions}>{actions}</footer>}
      </div>
    </dialog>
  );
}

interface ConfirmDialogProps {
  readonly isOpen?: boolean;
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
export function ConfirmDialog(props: ConfirmDialogProps) {
  const {
    isOpen = true,
    onClose,
    title,
    children,
    confirmLabel,
    isDangerous = false,
    isDisabled = false,
  } = props;
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
      <p role="alert" className={confirmDialogStyles.error}>
        {action.isError && describeError(action.error)}
      </p>
    </Dialog>
  );
}
