/** $1 ids, $2 attempt ids, $3 inputs: new runs and their places in the queue. */
export const CREATE = `
  with source as (
    select id, attempt_id, inputs, clock_timestamp() as at
      from unnest($1::uuid[], $2::uuid[], $3::json[]) as v (id, attempt_id, inputs)
  ),
  created as (
    insert into runs (
      id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
      max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, created_at, updated_at, size
    )
    select id, 'PENDING', 0, 0, 1, attempt_id, 0, 0, 0, 0, 1, 'i', inputs, '{}', 0, 0, 0, at, at, at, octet_length(inputs::text) + 2
      from source
  )
  insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
  select id, 0, at, 0, 0, 0
    from source`;

/** $1 how many, $2 worker: the head of the queue, with what its worker needs. */
export const CLAIM = `
  with head as (
    select run_id
      from queue
     where lane = '00000000-0000-0000-0000-000000000000'
       and is_admitted
     order by priority desc, created_at, run_id
     limit $1
       for update skip locked
  ),
  taken as (
    delete from queue q
     using head
     where q.run_id = head.run_id
  ),
  assigned as (
    update runs r
       set state = 'ASSIGNED',
           worker_id = $2::text,
           assigned_at = now(),
           updated_at = now()
      from head
     where r.id = head.run_id
       and r.state = 'PENDING'
 returning r.*
  ),
  begun as (
    insert into executions (run_id, created_at, assigned_at, attempt, cpu_millis, ram_mb, vram_mb, worker_id)
    select id, created_at, assigned_at, attempt, cpu * 1000, ram_mb, vram_mb, worker_id
      from assigned
  )
  select id, image, inputs
    from assigned`;

/** $1 ids, $2 worker, $3 payloads: STARTED of each, with its entry in the timeline. */
export const START = `
  with changed as (
    update runs r
       set state = 'RUNNING',
           started_at = now(),
           updated_at = now(),
           event_count = event_count + 1
      from unnest($1::uuid[], $3::json[]) as v (id, payload)
     where r.id = v.id
       and r.state = 'ASSIGNED'
       and r.worker_id = $2::text
 returning r.id, r.attempt, r.event_count, v.payload
  )
  insert into events (run_id, index, attempt, type, state, t, msg, payload, size)
  select id, event_count - 1, attempt, 'STARTED', 'RUNNING', now(), '""', payload, octet_length(payload::text) + 2
    from changed`;

/** $1 ids, $2 outputs, $3 payloads: COMPLETED of each, with its entry in the timeline. */
export const COMPLETE = `
  with changed as (
    update runs r
       set state = 'COMPLETED',
           outcome = 'COMPLETED',
           ended_worker = r.worker_id,
           progress = 100,
           outputs = v.outputs,
           finished_at = now(),
           updated_at = now(),
           event_count = event_count + 1
      from unnest($1::uuid[], $2::json[], $3::json[]) as v (id, outputs, payload)
     where r.id = v.id
       and r.state = 'RUNNING'
 returning r.id, r.attempt, r.event_count, r.worker_id, v.payload
  ),
  ended as (
    delete from executions e
     using changed c
     where e.worker_id = c.worker_id
       and e.run_id = c.id
  )
  insert into events (run_id, index, attempt, type, state, t, msg, payload, size)
  select id, event_count - 1, attempt, 'COMPLETED', 'COMPLETED', now(), '""', payload, octet_length(payload::text) + 2
    from changed`;

/** $1 ids in ascending order, $2 types, $3 messages, $4 payloads: an event on each, with the number that its run gives it. */
export const APPEND = `
  with changed as (
    update runs r
       set event_count = event_count + 1,
           updated_at = now()
      from unnest($1::uuid[], $2::text[], $3::json[], $4::json[]) as v (id, type, msg, payload)
     where r.id = v.id
 returning r.id, r.attempt, r.state, r.event_count, v.type, v.msg, v.payload
  )
  insert into events (run_id, index, attempt, type, state, t, msg, payload, size)
  select id, event_count - 1, attempt, type, state, now(), msg, payload,
         octet_length(msg::text) + octet_length(payload::text)
    from changed`;
