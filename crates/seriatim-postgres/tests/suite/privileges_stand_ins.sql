-- Stand-ins for the server's operators, functions, types and tables, in a schema of one's own and among temporary objects. Each notes
-- as whom it runs, in a table that only Seriatim's role can write.
create schema evil;

create function evil.note(what text) returns boolean language plpgsql as $$
begin
    insert into public.marker values (current_user, what);
    return true;
exception when insufficient_privilege then
    return true;
end $$;

do $$
declare
    one record;
begin
    for one in select o.oid, o.oprname, format_type(o.oprleft, null) as l, format_type(o.oprright, null) as r, format_type(o.oprresult, null) as result
        from pg_operator o where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprkind = 'b'
          and (o.oprleft <> all ('{int2,int4,float4,float8,money,interval,time,timetz,point,box,polygon,path,circle,lseg,line}'::regtype[]) or o.oprname in ('=', '<>'))
    loop
        begin
            execute format('create function evil.op_%s(%s, %s) returns %s language plpgsql as %L', one.oid, one.l, one.r, one.result,
                format('begin perform evil.note(%L); return null; end', 'operator ' || one.oprname));
            execute format('create operator evil.%s (leftarg = %s, rightarg = %s, function = evil.op_%s)', one.oprname, one.l, one.r, one.oid);
        exception when others then
            null;
        end;
    end loop;
    -- The functions that Seriatim's functions name.
    for one in select p.oid, p.proname, p.proretset, pg_get_function_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result
        from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
          and exists (select 1 from pg_proc s where s.pronamespace = 'seriatim'::regnamespace and s.prosrc like '%' || p.proname || '(%')
    loop
        begin
            execute format('create function evil.%I(%s) returns %s language plpgsql as %L', one.proname, one.arguments, one.result,
                format('begin perform evil.note(%L); return%s; end', 'function ' || one.proname, case when one.proretset then '' else ' null' end));
        exception when others then
            null;
        end;
    end loop;
    -- Types, as domains whose check runs when a value becomes one.
    for one in select t.typname, s.name as schema from pg_type t, (values ('evil'), ('pg_temp')) s (name)
        where t.typnamespace = 'pg_catalog'::regnamespace and t.typname in ('regclass', 'regproc', 'regprocedure', 'oid', 'int2', 'int4', 'int8',
            'text', 'name', 'bool', 'bytea', 'xid8', 'pg_snapshot', 'json', 'jsonb', 'timestamptz', 'numeric', 'interval', 'uuid', 'varchar')
    loop
        execute format('create domain %I.%I as pg_catalog.%I check (evil.note(%L))', one.schema, one.typname, one.typname,
            'type ' || one.schema || '.' || one.typname);
    end loop;
    -- Tables of the catalogue, as views whose condition runs when they are read.
    for one in select c.relname, s.name as schema, (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
            where a.attrelid = c.oid and a.attnum > 0 and a.atttypid <> 'anyarray'::regtype) as columns
        from pg_class c, (values ('evil'), ('pg_temp')) s (name)
        where c.relnamespace = 'pg_catalog'::regnamespace and c.relname in ('pg_class', 'pg_proc', 'pg_index', 'pg_attribute', 'pg_type',
            'pg_namespace', 'pg_trigger', 'pg_opclass', 'pg_amop', 'pg_operator', 'pg_collation', 'pg_inherits', 'pg_constraint')
    loop
        execute format('create %s view %I.%I as select %s from pg_catalog.%I c where evil.note(%L)',
            case one.schema when 'pg_temp' then 'temporary' else '' end, one.schema, one.relname, one.columns, one.relname,
            'table ' || one.schema || '.' || one.relname);
    end loop;
end $$;
