import { useEffect, useId, useRef, type ReactNode } from 'react';
import { classNames } from '../../lib/class-names.js';
import styles from './dialog.module.css';
import { IconButton } from '../controls/icon.js';

interface Props {
  readonly isOpen: boolean;
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
export function Dialog({ isOpen, onClose, title, children, actions, width = 'narrow' }: Props) {
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
