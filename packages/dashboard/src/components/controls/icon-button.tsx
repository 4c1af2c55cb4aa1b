import type { ButtonHTMLAttributes, ReactNode } from 'react';
import { classNames } from '../../lib/class-names.js';
import styles from './icon-button.module.css';

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  /** What it does, for the tip and for screen readers. */
  readonly label: string;
  readonly children: ReactNode;
}

/** A square button that shows an icon alone. */
export function IconButton({ label, className, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      aria-label={label}
      title={label}
      className={classNames(styles.button, className)}
    />
  );
}
