-- The step of the sequencer for logs. Safe to run again.

-- Gives numbers in every log of this schema where something waits for one, and tells whoever listens which logs that were. Returns how
-- many. A log in which nothing waits is neither locked nor written to.
create or replace function seriatim.log_tick() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    one record;
    waits bigint;
    given bigint;
    total bigint := 0;
    moved int[] := '{}';
begin
    for one in select l.id, l.name from seriatim.log l loop
        begin
            execute format('select seriatim.%I(1)', one.name || '_unsequenced') into waits;
            continue when waits = 0;
            given := coalesce(seriatim.log_sequence(one.id), 0);
            total := total + given;
            if given > 0 then
                moved := moved || one.id;
            end if;
        exception when others then
            -- One log that somebody tampered with is not the end of the others.
            raise warning 'log % cannot be sequenced: %', one.id, sqlerrm;
        end;
    end loop;
    if cardinality(moved) > 0 then
        perform pg_notify('seriatim_tick',
            'log' || case when cardinality(moved) <= 300 then ' ' || array_to_string(moved, ',') else '' end);
    end if;
    return total;
end $$;
