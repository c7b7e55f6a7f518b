-- On which table a trigger is by now, and which trigger that is not ours was made after it, the newest if there are several.
select ours.tbl_name, (
    select theirs.name from sqlite_master as theirs
    where theirs.type = 'trigger' and theirs.tbl_name = ours.tbl_name and theirs.rowid > ours.rowid
      and theirs.name not like 'seriatim\_%' escape '\'
    order by theirs.rowid desc limit 1
)
from sqlite_master as ours where ours.type = 'trigger' and ours.name = ?1
