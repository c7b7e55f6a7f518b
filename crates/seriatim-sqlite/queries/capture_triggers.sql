-- On which table a trigger is by now, and whether any trigger that is not ours was made after it.
select ours.tbl_name, exists (
    select 1 from sqlite_master as theirs
    where theirs.type = 'trigger' and theirs.tbl_name = ours.tbl_name and theirs.rowid > ours.rowid
      and theirs.name not like 'seriatim\_%' escape '\'
)
from sqlite_master as ours where ours.type = 'trigger' and ours.name = ?1
