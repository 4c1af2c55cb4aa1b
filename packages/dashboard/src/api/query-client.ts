import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query';
import { isKeyRefused } from './api-error.js';

/**
 * The cache of answers. Requests are not repeated after an error: while the service is unreachable the shell asks for it and
 * refreshes everything when it is back.
 * @param onKeyRefused called when the service no longer takes the key
 */
export function createQueryClient(onKeyRefused: () => void): QueryClient {
  const onError = (error: unknown): void => {
    if (isKeyRefused(error)) onKeyRefused();
  };
  return new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      // The browser's idea of being offline says nothing about a service on the same machine.
      queries: { retry: false, networkMode: 'always', staleTime: 1000 },
      mutations: { retry: false, networkMode: 'always' },
    },
  });
}
