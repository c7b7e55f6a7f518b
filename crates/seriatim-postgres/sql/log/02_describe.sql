-- What the SQL of a log is made of. Reads the catalogue only.

-- The entry of a watched table, or an error that says what to do.
create or replace function seriatim.log_entry(watched regclass) returns seriatim.log
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log;
begin
    select * into entry from seriatim.log l where l.watched = log_entry.watched;
    if not found then
        raise exception 'table % has no log', watched using hint = format('select seriatim.log_init(%L)', watched);
    end if;
    return entry;
end $$;

-- The lock that whoever gives numbers holds until its commit.
create or replace function seriatim.log_lock(log int) returns bigint
language sql stable set search_path = pg_catalog, pg_temp as $$
    select (1397834067::bigint << 32) | (('seriatim.log'::regclass::oid::bigint # (log::bigint << 16)) & 4294967295)
$$;

-- Refuses what cannot be watched, with a sentence.
create or replace function seriatim.log_refuse(watched regclass) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    class pg_catalog.pg_class;
begin
    select * into strict class from pg_catalog.pg_class c where c.oid = watched;
    if class.relkind not in ('r', 'p') then
        raise exception '% is not a table', watched using hint = 'watch the table that its rows are in';
    end if;
    if class.relpersistence <> 'p' then
        raise exception 'table % is temporary or unlogged: it loses its rows without a word', watched
            using hint = format('alter table %s set logged', watched);
    end if;
    if class.relispartition then
        raise exception 'table % is a partition', watched using hint = 'watch the partitioned table itself';
    end if;
    if exists (select 1 from pg_catalog.pg_inherits i where i.inhrelid = watched)
       or (class.relkind = 'r' and exists (select 1 from pg_catalog.pg_inherits i where i.inhparent = watched)) then
        raise exception 'table % inherits, or is inherited from: its statements touch rows of other tables', watched
            using hint = 'make it a partitioned table, or watch a table of its own';
    end if;
    if row_security_active(watched) then
        raise exception 'row level security of table % may hide rows from the role %, which reads them', watched, current_user
            using hint = format('let a superuser run: alter role %I bypassrls', current_user);
    end if;
end $$;

-- The unique index over the key: the primary key unless columns are given. Null where there is none.
create or replace function seriatim.log_key_index(watched regclass, columns text[]) returns oid
language sql stable set search_path = pg_catalog, pg_temp as $$
    select i.indexrelid
    from pg_catalog.pg_index i
    where i.indrelid = watched and i.indisunique and i.indisvalid and i.indimmediate
      and i.indpred is null and i.indexprs is null
      and case when columns is null then i.indisprimary
          else (select array_agg(a.attname::text order by a.attname) from pg_catalog.pg_attribute a
                where a.attrelid = watched and a.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1]))
               = (select array_agg(c order by c) from unnest(columns) c) end
      and not exists (select 1 from pg_catalog.pg_attribute a where a.attrelid = watched and not a.attnotnull
                      and a.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1]))
    order by i.indisprimary desc, i.indexrelid
    limit 1
$$;

-- One row for each column of a log's key: its name in the log, its name in the table now, its type, the schema of its operators.
create or replace function seriatim.log_key(entry seriatim.log)
returns table (place int, name text, now text, type text, plain text, plain_now text, home text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select k.place::int, quote_ident(k.name), quote_ident(a.attname),
           format_type(a.atttypid, -1) || case when a.attcollation <> t.typcollation
               then format(' collate %I.%I', cn.nspname, c.collname) else '' end,
           k.name, a.attname::text,
           (select quote_ident(n.nspname)
            from pg_index i, unnest(i.indkey::int2[], i.indclass::oid[]) x (attnum, class)
            join pg_opclass oc on oc.oid = x.class
            join pg_amop am on am.amopfamily = oc.opcfamily and am.amopstrategy = 3
             and am.amoplefttype = oc.opcintype and am.amoprighttype = oc.opcintype
            join pg_operator op on op.oid = am.amopopr
            join pg_namespace n on n.oid = op.oprnamespace
            where i.indexrelid = entry.key_index and x.attnum = k.attnum limit 1)
    from unnest(entry.key_columns, entry.key_attnums) with ordinality as k (name, attnum, place)
    join pg_attribute a on a.attrelid = entry.watched and a.attnum = k.attnum and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    left join pg_collation c on c.oid = a.attcollation
    left join pg_namespace cn on cn.oid = c.collnamespace
    order by k.place
$$;

-- Refuses a key whose operators are in a schema where others may make some of their own: they would be called with the owner's rights.
create or replace function seriatim.log_refuse_key(entry seriatim.log) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    open_schema text := seriatim.log_open_schema(entry);
begin
    if open_schema is not null then
        raise exception 'the key of table % is compared by operators in schema %, where others may make some of their own',
                entry.watched, open_schema
            using hint = format('revoke create on schema %s from all but its owner, or use another unique key', open_schema);
    end if;
end $$;

-- A schema of the key's operators in which others than its owner may make something. Null when there is none.
create or replace function seriatim.log_open_schema(entry seriatim.log) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select k.home from seriatim.log_key(entry) k
    join pg_namespace n on quote_ident(n.nspname) = k.home
    where exists (select 1 from aclexplode(n.nspacl) a where a.privilege_type = 'CREATE' and a.grantee <> n.nspowner)
    limit 1
$$;

-- Whether a table is neither the watched one nor a partition of it, or the log is not in order: then its triggers note nothing.
-- Whoever put them on another table is told so.
create or replace function seriatim.log_is_foreign(log int, relation oid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log;
begin
    select * into entry from seriatim.log l where l.id = log_is_foreign.log;
    -- After a restore from a dump, the columns have other numbers: writers go on, and log_problems says so.
    if not found or entry.watched_oid <> entry.watched::oid then
        return true;
    end if;
    if relation <> entry.watched
       and not exists (select 1 from pg_partition_ancestors(relation) a where a.relid = entry.watched) then
        raise exception 'the triggers of the log of table % are on table %', entry.watched, relation::regclass
            using hint = 'drop them there: each table has a log of its own';
    end if;
    return false;
end $$;

-- Fills a template: {watched} {log} {id} and so on, and the words given. `[[…|sep]]` is repeated for each column of the key, with {c} its
-- name in the log and {w} its name in the watched table, {c text} and {w text} the same as texts, {w quoted} as a text with its quotes.
-- What is filled in is not looked at again: names may look like anything.
drop function if exists seriatim.log_sql(seriatim.log, text);
create or replace function seriatim.log_sql(entry seriatim.log, template text, given jsonb default '{}') returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    all_words jsonb := seriatim.log_words(entry) || given;
begin
    return (
        select string_agg(case when part.m[3] is null then (
                select string_agg(seriatim.log_fill(part.m[1], all_words || k.words), part.m[2] order by k.place)
                from seriatim.log_key_words(entry) k)
            else seriatim.log_fill(part.m[3], all_words) end, '' order by part.n)
        from regexp_matches(template, '[[][[]([^][|]*)[|]([^][|]*)[]][]]|([^[]+|[[])', 'g') with ordinality part (m, n));
end $$;

-- Puts words where their names stand in braces. Other braces stay as they are.
create or replace function seriatim.log_fill(template text, words jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(coalesce(words ->> part.m[1], '{' || part.m[1] || '}', part.m[2]), '' order by part.n), '')
    from regexp_matches(template, '[{]([a-z ]+)[}]|([^{]+|[{])', 'g') with ordinality part (m, n)
$$;

-- The words of a log.
create or replace function seriatim.log_words(entry seriatim.log) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'watched', entry.watched::text,
        'oid', entry.watched::oid::text,
        'view', format('seriatim.%I', entry.name),
        'keys', format('seriatim.%I', entry.name || '_keys'),
        'places', format('seriatim.%I', entry.name || '_places'),
        'seq', format('seriatim.%I', entry.name || '_seq'),
        'log', entry.name,
        'id', entry.id::text,
        'path', (select 'pg_catalog' || coalesce(string_agg(distinct ', ' || k.home, ''), '') from seriatim.log_key(entry) k
                 where k.home <> 'pg_catalog'))
$$;

-- The words of each column of a log's key.
create or replace function seriatim.log_key_words(entry seriatim.log) returns table (place int, words jsonb)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select k.place, jsonb_build_object('c', k.name, 'w', k.now, 'type', k.type, 'i', k.place::text,
        'c text', quote_literal(k.plain), 'w text', quote_literal(k.plain_now), 'w quoted', quote_literal(k.now))
    from seriatim.log_key(entry) k
$$;

-- Makes a function of a log: its name begins with the log's, `head` goes on from there. Both texts are templates.
create or replace function seriatim.log_make(entry seriatim.log, head text, body text, given jsonb default '{}') returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    execute seriatim.log_sql(entry, 'create or replace function seriatim."{log}' || head, given)
        || ' as ' || quote_literal(seriatim.log_sql(entry, body, given));
end $$;
