import type { ButtonHTMLAttributes, ReactNode } from 'react';
import { classNames } from '../../lib/class-names.js';
import styles from './button.module.css';

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  readonly size?: 'small' | 'normal';
  /** Under way: it keeps its size and focus, and presses do nothing. */
  readonly isBusy?: boolean;
  readonly children: ReactNode;
}

/** A button; `type` is `button` unless said otherwise. */
export function Button({ kind = 'plain', size = 'normal', isBusy = false, onClick, ...rest }: Props) {
  return (
    // oxlint-disable-next-line react/button-has-type -- the type is the caller's, or the default before it
    <button
      type="button"
      {...rest}
      aria-busy={isBusy || undefined}
      aria-disabled={isBusy || undefined}
      className={classNames(styles.button, styles[kind], styles[size], rest.className)}
      onClick={(event) => {
        if (isBusy) event.preventDefault();
        else onClick?.(event);
      }}
    />
  );
}
