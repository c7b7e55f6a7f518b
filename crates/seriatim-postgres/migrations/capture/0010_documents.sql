-- Documents that are `null`: in the JSON of a row they look like columns that are null.

-- The type under a type's domains.
create function seriatim.base_type(of oid) returns oid
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    base oid := of;
    under oid;
begin
    loop
        select t.typbasetype into under from pg_type t where t.oid = base and t.typtype = 'd';
        if not found then
            return base;
        end if;
        base := under;
    end loop;
end
$$;

-- The names of a table's columns of type json and jsonb. Null when it has none.
create function seriatim.documents_now(relation oid) returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (select array_agg(a.attname::text order by a.attnum) from pg_attribute a
            where a.attrelid = relation and a.attnum > 0 and not a.attisdropped
                -- Smaller numbers are the server's own types.
                and case when a.atttypid < 16384 then a.atttypid else seriatim.base_type(a.atttypid) end in (114, 3802));
end
$$;

-- The same, declared immutable so that plans have it as a constant (see column_name).
create function seriatim.documents(relation oid) returns text[]
language sql immutable set search_path = pg_catalog, pg_temp as $$ select seriatim.documents_now(relation) $$;

-- A row's JSON with a last member without a name: the columns, among these, that have a document `null` and not none.
-- It depends on no column: a row that differs from itself with null in a column has something in that column.
create function seriatim.with_null_documents(image json, whole record, documents text[]) returns json
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    name text;
    is_document boolean;
    found_in text[] := '{}';
begin
    if documents is null or strpos(image::text, 'null') = 0 then
        return image;
    end if;
    foreach name in array documents loop
        continue when json_typeof(image -> name) is distinct from 'null';
        begin
            is_document := json_populate_record(whole, json_build_object(name, null)) *<> whole;
        exception when others then
            -- Its domain has no null, and says so in whatever way. No writer fails for that.
            is_document := true;
        end;
        if is_document then
            found_in := found_in || name;
        end if;
    end loop;
    return case when cardinality(found_in) = 0 then image
                else (left(image::text, -1) || ',"":' || to_json(found_in) || '}')::json end;
end
$$;
