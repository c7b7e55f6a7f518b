-- Makes the functions of all logs anew that were made by files of before. One that is broken stays as it is: log_repair mends it.
do $$
declare
    entry seriatim.log;
begin
    for entry in select * from seriatim.log loop
        begin
            perform seriatim.log_freshen(entry);
            if entry.made is null then
                perform seriatim.log_note_triggers(entry);
            end if;
        exception when others then
            raise warning 'log % is left as it is: %', entry.name, sqlerrm;
        end;
    end loop;
end $$;
