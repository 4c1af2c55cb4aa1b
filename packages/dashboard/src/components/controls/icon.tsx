import type { ButtonHTMLAttributes } from 'react';
import buttonStyles from './icon-button.module.css';
import styles from './icon.module.css';

/** Paths on a 24 x 24 grid, drawn as lines. */
const PATHS = {
  audit: 'M8 3h8l3 3v15H5V3h3M9 9h6M9 13h6M9 17h4',
  away: 'M3 3l18 18M8.500 15.500a5 5 0 0 1 6 0M5 12a10 10 0 0 1 5-2.700M19 12a10 10 0 0 0-4-2.400M2 8.500A15 15 0 0 1 6 6M22 8.500A15 15 0 0 0 10.500 5M12 19.500h.01',
  check: 'M5 12.500l4.500 4.500L19 7.500',
  'chevron-left': 'M15 5l-7 7 7 7',
  'chevron-right': 'M9 5l7 7-7 7',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  definitions: 'M12 3l9 5-9 5-9-5zM3 12.500l9 5 9-5M3 17l9 5 9-5',
  feed: 'M5 18.500h.01M4 11a9 9 0 0 1 9 9M4 4a16 16 0 0 1 16 16',
  groups: 'M3 9.500h5v5H3zM16 3.500h5v5h-5zM16 15.500h5v5h-5zM8 12h4M16 6h-4v12h4',
  help: 'M9 9a3 3 0 1 1 4.500 2.600c-1 .6-1.500 1.200-1.500 2.400M12 17.500h.01M12 2.500a9.500 9.500 0 1 1 0 19 9.500 9.500 0 0 1 0-19',
  hidden:
    'M4 4l16 16M10 5.200A9 9 0 0 1 21 12a12 12 0 0 1-2.300 3M6 7a12 12 0 0 0-3 5c1.500 4 5 7 9 7a9 9 0 0 0 4.500-1.200M10 10a3 3 0 0 0 4 4',
  keys: 'M14.500 9.500a4.500 4.500 0 1 1-9 0 4.500 4.500 0 0 1 9 0M13 13l7 7M17 17l2-2',
  monitor: 'M3 4.500h18v12H3zM8 20.500h8M12 16.500v4',
  moon: 'M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500',
  overview: 'M4 20V11M10 20V4M16 20v-6M21 20H3',
  pause: 'M8 5v14M16 5v14',
  play: 'M7 4.500v15l12-7.500z',
  runs: 'M4 6h10M4 12h16M4 18h7M18 6h2',
  schedules: 'M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18M12 7v5l3.500 2.500',
  search: 'M10.500 4a6.500 6.500 0 1 1 0 13 6.500 6.500 0 0 1 0-13M15.500 15.500L20.500 20.500',
  secrets: 'M5 11h14v9.500H5zM8 11V7.500a4 4 0 0 1 8 0V11M12 15v2',
  'sign-out': 'M14 4h5v16h-5M3 12h11M10 8l4 4-4 4',
  sun: 'M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8M12 2v2.500M12 19.500V22M2 12h2.500M19.500 12H22M5 5l1.700 1.700M17.300 17.300L19 19M5 19l1.700-1.700M17.300 6.700L19 5',
  visible:
    'M2.500 12C4 8 7.500 5.500 12 5.500S20 8 21.500 12C20 16 16.500 18.500 12 18.500S4 16 2.500 12M12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6',
  warning: 'M12 3.500L22 20.500H2zM12 10v5M12 17.800h.01',
  webhooks: 'M4 12h10M10 7l5 5-5 5M19 5v14',
  workers: 'M3 4h18v7H3zM3 13h18v7H3zM7 7.500h.01M7 16.500h.01',
} as const;

/** The icons that there are. */
export type IconName = keyof typeof PATHS;

/** A line icon of the size of the text. It says nothing to screen readers: whatever it means stands beside it. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg className={styles.icon} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'children' | 'className'> {
  /** What it does, for the tip and for screen readers. */
  readonly label: string;
  readonly icon: IconName;
}

/** A square button that shows an icon alone. */
export function IconButton({ label, icon, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} aria-label={label} title={label} className={buttonStyles.button}>
      <Icon name={icon} />
    </button>
  );
}
