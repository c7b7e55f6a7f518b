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
           format_type(a.atttypid, null) || case when a.attcollation <> t.typcollation
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

-- Fills a template: {watched} {log} {id} and so on. `[[…|sep]]` is repeated for each column of the key, with {c} its name in
-- the log and {w} its name in the watched table, {c text} and {w text} the same as texts, {w quoted} as a text with its quotes.
create or replace function seriatim.log_sql(entry seriatim.log, template text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    part text;
    pieces text[];
    filled text := template;
begin
    loop
        part := substring(filled from '\[\[(.*?)\]\]');
        exit when part is null;
        pieces := regexp_match(part, '^(.*)\|(.*)$');
        filled := replace(filled, '[[' || part || ']]', (
            select string_agg(replace(replace(replace(replace(replace(replace(replace(pieces[1],
                '{c}', k.name), '{w}', k.now), '{type}', k.type), '{i}', k.place::text), '{c text}', quote_literal(k.plain)),
                '{w text}', quote_literal(k.plain_now)), '{w quoted}', quote_literal(k.now)), pieces[2] order by k.place)
            from seriatim.log_key(entry) k));
    end loop;
    filled := replace(filled, '{watched}', entry.watched::text);
    filled := replace(filled, '{view}', format('seriatim.%I', entry.name));
    filled := replace(filled, '{keys}', format('seriatim.%I', entry.name || '_keys'));
    filled := replace(filled, '{places}', format('seriatim.%I', entry.name || '_places'));
    filled := replace(filled, '{seq}', format('seriatim.%I', entry.name || '_seq'));
    filled := replace(filled, '{log}', entry.name);
    filled := replace(filled, '{id}', entry.id::text);
    filled := replace(filled, '{path}', (
        select 'pg_catalog' || coalesce(string_agg(distinct ', ' || k.home, ''), '') from seriatim.log_key(entry) k
        where k.home <> 'pg_catalog'));
    return filled;
end $$;
