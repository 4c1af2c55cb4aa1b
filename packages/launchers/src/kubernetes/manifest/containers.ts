import type { Container } from '../api/resources.js';

/** What containers of the launcher get. */
const FOR_SCRIPTS = {
  requests: { cpu: '10m', memory: '16Mi' },
  limits: { cpu: '500m', memory: '64Mi' },
};
/** What those get that move files of runs. */
export const FOR_FILES = {
  requests: { cpu: '10m', memory: '64Mi' },
  limits: { cpu: '1', memory: '512Mi' },
};

/** A container of the launcher, which executes a script. */
export function helper(name: string, image: string, script: string, resources = FOR_SCRIPTS): Container {
  return { name, image, command: ['sh', '-c', literal(script)], resources };
}

/** Keeps Kubernetes from expanding `$(NAME)`, and from reading `$$` as one `$`. */
export function literal(text: string): string {
  return text.replaceAll('$', () => '$$');
}

/** @param capabilities that it keeps; root alone has them */
export function restricted(...capabilities: readonly string[]): Container['securityContext'] {
  const add = capabilities.length === 0 ? {} : { add: capabilities };
  return { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'], ...add } };
}

/** Of the user that a run names. */
export function userOf(text: string): Container['securityContext'] {
  const [user, group] = text.split(':').map(Number);
  return { runAsUser: user, ...(group === undefined ? {} : { runAsGroup: group }) };
}
