import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { Caller } from 'longshore/extension';
import { catchError, mergeMap, type Observable } from 'rxjs';
import { TeamBudgetsService } from './team-budgets.service.js';

const CREATES_ONE = new Set(['/runs', '/definitions/:name/runs']);
const CREATES_MANY = '/runs/batch';

/** Charges each request that creates runs to the budget of the caller's team, and refuses it when nothing is left. */
@Injectable()
export class TeamBudgetInterceptor implements NestInterceptor {
  constructor(private readonly budgets: TeamBudgetsService) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const http = context.switchToHttp();
    const request = http.getRequest<Request & { user?: Caller }>();
    const asked = runsToCreate(request);
    if (asked === 0 || request.user === undefined) return next.handle();
    const team = request.user.name;
    await this.budgets.charge(team, asked);
    return next.handle().pipe(
      mergeMap(async (answer: unknown) => {
        await this.budgets.refund(team, asked - runsCreated(answer, http.getResponse<Response>()));
        return answer;
      }),
      // The request was refused, also by the validation of its body.
      catchError(async (error: unknown) => {
        await this.budgets.refund(team, asked);
        throw error;
      }),
    );
  }
}

/** How many runs the request asks for. Its body has not been validated yet. */
function runsToCreate({ method, route, body }: Request): number {
  if (method !== 'POST') return 0;
  if (CREATES_ONE.has(route.path)) return 1;
  return route.path === CREATES_MANY && Array.isArray(body?.runs) ? body.runs.length : 0;
}

/** How many new runs the answer is about: none if it repeats that of an earlier request with the same Idempotency-Key. */
function runsCreated(answer: unknown, response: Response): number {
  if (!isBatch(answer)) return response.hasHeader('Idempotency-Replayed') ? 0 : 1;
  return answer.results.filter(({ status, replayed }) => status === 201 && replayed !== true).length;
}

interface Batch {
  readonly results: readonly { readonly status: number; readonly replayed?: boolean }[];
}

function isBatch(answer: unknown): answer is Batch {
  return typeof answer === 'object' && answer !== null && 'results' in answer;
}
