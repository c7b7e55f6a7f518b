-- Forgets what nobody needs any more: places that were kept for a consumer that has passed them, deleted keys that every
-- consumer has passed, and keys whose rows vanished where deletes are not noted. Returns how many places are gone.
create or replace function seriatim.log_prune(log int, most int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log;
    passed bigint;
    gone bigint;
    more bigint;
begin
    select * into strict entry from seriatim.log l where l.id = log_prune.log;
    -- A transaction that sees a state of before could take a row for gone.
    if entry.watched_oid <> entry.watched::oid or current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        return 0;
    end if;
    select min(at) into passed from seriatim.log_consumer c, unnest(c.positions) at where c.log = entry.id;
    -- Whoever alters the table is waited for here, and not with the sequencer's lock in hand.
    execute format('lock table %s in access share mode', entry.watched);
    if passed is null or not pg_try_advisory_xact_lock(seriatim.log_lock(entry.id)) then
        return 0;
    end if;
    entry := seriatim.log_freshen(entry);
    execute seriatim.log_sql(entry, $sql$
        with passed as (
            select p.modified_seq_id from {places} p where p.pinned and p.modified_seq_id <= $1
            order by p.modified_seq_id limit $2 for update skip locked)
        delete from {places} p using passed x where p.modified_seq_id = x.modified_seq_id
    $sql$) using passed, most;
    get diagnostics gone = row_count;
    if entry.deletes then
        execute format('select seriatim.%I($1, $2)', entry.name || '_forget_deleted') into more using passed, most;
    else
        execute format('select seriatim.%I($1)', entry.name || '_sweep') into more using most;
    end if;
    return gone + more;
end $$;

-- Makes the two functions that forget keys. Each locks a key's row first, skipping those that a writer holds, and then looks
-- again whether the row of the watched table is really gone: whoever writes it after that waits, and notes it anew.
create or replace function seriatim.log_make_prune_functions(entry seriatim.log) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    settings text := ' language plpgsql set search_path = {path}, pg_temp set row_security = off '
        'set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off';
begin
    perform seriatim.log_make(entry, '_forget_deleted"(passed bigint, most int) returns bigint' || settings, $sql$
        #variable_conflict use_column
        declare
            candidates bigint[];
            locked bigint[];
            gone bigint;
        begin
            candidates := array(select p.modified_seq_id from {places} p where p.deleted and p.modified_seq_id <= passed
                order by p.modified_seq_id limit most);
            -- Only what has nothing newer, neither a place nor a change without a number.
            locked := array(select p.modified_seq_id from unnest(candidates) c (at)
                join {places} p on p.modified_seq_id = c.at
                join {keys} k on [[k.{c} = p.{c}| and ]]
                where k.changed = p.changed for update of k, p skip locked);
            with ended as (
                select p.modified_seq_id, [[p.{c}|, ]] from unnest(locked) l (at) join {places} p on p.modified_seq_id = l.at
                where not exists (select 1 from {watched} w where [[w.{w} = p.{c}| and ]])
            ), keys as (
                delete from {keys} k using ended e where [[k.{c} = e.{c}| and ]]
            ), places as (
                delete from {places} p using ended e where [[p.{c} = e.{c}| and ]] and p.modified_seq_id <= passed
            )
            select count(*), max(e.modified_seq_id) into gone, passed from ended e;
            -- A key that is there again, or whose row is, has a newer place or will: this one is like any other.
            update {places} p set deleted = false
            where p.modified_seq_id = any(locked) and p.deleted
              and exists (select 1 from {watched} w where [[w.{w} = p.{c}| and ]]);
            update seriatim.log l set pruned = greatest(l.pruned, passed) where l.id = {id} and passed > l.pruned;
            return gone;
        end
    $sql$);
    perform seriatim.log_make(entry, '_sweep"(most int) returns bigint' || settings, $sql$
        #variable_conflict use_column
        declare
            start bigint := (select l.swept from seriatim.log l where l.id = {id});
            finish bigint;
            vanished bigint[];
            gone bigint;
        begin
            select max(x.at) into finish from (
                select p.modified_seq_id as at from {places} p where p.modified_seq_id > start
                order by p.modified_seq_id limit most) x;
            vanished := array(select p.modified_seq_id from {places} p
                where p.modified_seq_id > start and p.modified_seq_id <= finish
                  and not exists (select 1 from {watched} w where [[w.{w} = p.{c}| and ]]) for update skip locked);
            -- A key that a writer holds will be noted anew, or was not deleted after all.
            vanished := array(select p.modified_seq_id from unnest(vanished) v (at) join {places} p on p.modified_seq_id = v.at
                where not exists (select 1 from {keys} k where [[k.{c} = p.{c}| and ]]))
                || array(select p.modified_seq_id from unnest(vanished) v (at) join {places} p on p.modified_seq_id = v.at
                join {keys} k on [[k.{c} = p.{c}| and ]] for update of k skip locked);
            with ended as (
                select p.modified_seq_id, [[p.{c}|, ]] from unnest(vanished) v (at) join {places} p on p.modified_seq_id = v.at
                where not exists (select 1 from {watched} w where [[w.{w} = p.{c}| and ]])
            ), keys as (
                delete from {keys} k using ended e where [[k.{c} = e.{c}| and ]]
            ), places as (
                delete from {places} p using ended e where p.modified_seq_id = e.modified_seq_id
            )
            select count(*) into gone from ended e;
            if start <> coalesce(finish, 0) then
                update seriatim.log l set swept = coalesce(finish, 0) where l.id = {id};
            end if;
            return gone;
        end
    $sql$);
end $$;
